"""The dashboard's entry: `streamlit run dashboard/app.py`. Talks to the API at CAPTUNE_API_URL."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

st.set_page_config(page_title="Captune", page_icon=":material/tune:", layout="wide")
st.logo(str(Path(__file__).with_name("logo.svg")), size="large")
# Streamlit leaves a hand's breadth above the title.
st.html("<style>.stMainBlockContainer {padding-top: 3.5rem; padding-bottom: 3rem;}</style>")

page = st.navigation(
    [
        st.Page("pages/start.py", title="Start", icon=":material/home:", default=True),
        st.Page("pages/traces.py", title="Traces", icon=":material/upload_file:", url_path="traces"),
        st.Page("pages/workload.py", title="Workload", icon=":material/bar_chart:", url_path="workload"),
        st.Page("pages/tune.py", title="Tune", icon=":material/tune:", url_path="tune"),
        st.Page("pages/sweeps.py", title="Sweeps", icon=":material/list_alt:", url_path="sweeps"),
        st.Page("pages/result.py", title="Result", icon=":material/verified:", url_path="result"),
    ]
)
st.title("Which capture sizes?" if page.title == "Start" else page.title, anchor=False)
page.run()
