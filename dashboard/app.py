"""The dashboard's entry: `streamlit run dashboard/app.py`. Talks to the API at CAPTUNE_API_URL."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

st.set_page_config(page_title="Captune", page_icon=str(Path(__file__).with_name("favicon.svg")), layout="wide")
st.logo(str(Path(__file__).with_name("logo.svg")), size="large")
st.html(Path(__file__).with_name("style.css"))


def _page(name: str, icon: str) -> st.Page:
    return st.Page(f"views/{name}.py", title=name.capitalize(), icon=f":material/{icon}:", url_path=name)


# Without sections: Streamlit puts those into lists that a screen reader cannot follow.
page = st.navigation(
    [
        st.Page("views/start.py", title="Start", icon=":material/home:", default=True),
        _page("traces", "upload_file"),
        _page("workload", "bar_chart"),
        _page("coverage", "stacked_bar_chart"),
        _page("tune", "tune"),
        _page("sweeps", "list_alt"),
        _page("result", "verified"),
        _page("measurements", "speed"),
        _page("feedback", "all_inclusive"),
        _page("export", "ios_share"),
        _page("fleet", "dns"),
        _page("compare", "compare_arrows"),
    ],
    expanded=True,
)
st.title("Which capture sizes?" if page.title == "Start" else page.title, anchor=False)
page.run()
