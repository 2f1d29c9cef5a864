"""A report: one HTML file with what a store holds, which opens without a network and without a server.

1. `summary`: how all runs ended, what they were given, which guarantees broke; `choice`: the runs that are replayed.
2. `replay`, `states`, `layout`: what happened in a run, what its nodes held, where they are drawn.
3. `losses`: deliveries that are missing, twice or late, with their stories.
4. `charts`, `space_time`: pictures as Vega-Lite specifications, drawn by the libraries that Altair's wheels carry.
5. `document` gathers all that, `page` makes one file of it; the page's own programs and style are in `assets/`.

The page names nodes, never ids: ``naming`` says which fields hold nodes.
"""
