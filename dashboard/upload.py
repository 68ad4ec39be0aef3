"""Handing in a file: what was understood is stored and said, what was not is refused in one sentence."""

from __future__ import annotations

import os
from typing import BinaryIO

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dashboard import names, text
from dashboard.client import ApiProblem
from dashboard.mapping_form import ask_mapping
from dashboard.state import Place, api, choose
from services.contract.mapping import MappingRequest
from services.contract.trace import TraceModel

LIMIT_MB = 200


def upload(name: str) -> None:
    """An uploader whose stored trace becomes the trace of the URL."""
    # A new key empties the uploader after a file was stored, so that a rerun does not send it again.
    key = f"upload-{name}-{st.session_state.get('uploads', 0)}"
    file = st.file_uploader(
        "Trace file",
        key=key,
        max_upload_size=LIMIT_MB,
        help="Azure and Mooncake traces, CSV, JSON lines, Parquet, SGLang and vLLM logs are recognised by content.",
    )
    st.caption(
        f"Up to {LIMIT_MB} MB here. A larger file goes in by `captune trace import FILE`, or through the API: "
        f"`curl -F file=@FILE {api().url}/api/v1/traces`."
    )
    done = st.session_state.get("stored_trace")
    if file is None:
        if done:
            st.success(done, icon=":material/check_circle:")
        return
    if st.session_state.get("refused_file") != file.file_id:
        _send(file, None)
    st.error(f"Nothing was stored. {st.session_state['refusal']}", icon=":material/error:")
    mapping = ask_mapping(file)
    if mapping is not None:
        _send(file, mapping)
        st.rerun()


def _send(file: UploadedFile, mapping: MappingRequest | None) -> None:
    """Store the file and start the page afresh, or remember why it was refused."""
    st.session_state.pop("stored_trace", None)
    bar = st.progress(0.0)
    try:
        trace = api().upload_trace(file.name, Watched(file, file.size, file.name, bar), mapping)
    except ApiProblem as problem:
        st.session_state["refused_file"], st.session_state["refusal"] = file.file_id, str(problem)
        return
    finally:
        bar.empty()
    changed()
    st.session_state["stored_trace"] = _stored_sentence(trace)
    choose("trace", trace.id)
    st.rerun()


class Watched:
    """A file that moves a progress bar while it is read; past its end the API is at work on it."""

    def __init__(self, file: BinaryIO, size_bytes: int, name: str, bar: Place) -> None:
        self._file, self._size_bytes, self._name, self._bar = file, max(1, size_bytes), name, bar
        self._shown_percent = -1

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        done = self._file.tell() / self._size_bytes
        percent = int(100 * done)
        if percent != self._shown_percent:
            self._shown_percent = percent
            words = f"Sending {self._name}" if percent < 100 else f"Sent; reading {self._name}"
            self._bar.progress(min(1.0, done), text=f"{words} …")
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def changed() -> None:
    """The stored traces are others than before: pickers and the uploader start afresh."""
    st.session_state["uploads"] = st.session_state.get("uploads", 0) + 1


def _stored_sentence(trace: TraceModel) -> str:
    dropped = trace.rows_read - trace.rows_kept
    kept = f"kept {text.count(trace.rows_kept)} of {text.count(trace.rows_read, 'rows')}"
    return f"{trace.name} is stored as {names.format_name(trace.format)}: {kept}" + (
        ", none dropped." if not dropped else "."
    )
