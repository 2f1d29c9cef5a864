-- audit: every node's view contains exactly the links within δ+1 hops of the node (Eq. 1)
select * from broken_view
