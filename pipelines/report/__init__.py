"""Renders a store as one HTML file that needs neither a network connection nor a server.

1. `summary` computes verdicts, parameters, broken guarantees, lost deliveries with their causes, and the means of each
   combination of parameters. It also selects the runs that a report replays.
2. `replay` and `states` read the messages, events and node states of a run; `layout` computes node positions.
3. `measures`, `plots` and `space_time` compute the rows of charts and diagrams. `pictures` renders their Vega-Lite
   specifications as SVG.
4. `page` collects all content, and writes it into one file. The scripts and the style sheet of the page are in
   `assets/`.

Pages show node names instead of ids; `page.NODE_FIELDS` lists the fields that contain node ids.
"""
