"""Protocol ``ginger`` as a node program, `program.Ginger`, after the thesis "Ginger" by Matos.

A node is a `broker.Broker` or a `client.Client`. Each consists of parts: classes that implement sections of the thesis.
Module `node` declares the tables of a node, and module `messages` declares the messages. A part calls other parts
directly if its module imports them, and through the interface `node.Role` otherwise.

Terms of the thesis and of the rules in the README:

- edge broker: the broker to which a client is connected;
- sub-tree of a topic: the brokers on the paths between the edge brokers of its subscribers;
- members of a topic: the brokers of its sub-tree, and its subscribers;
- topic's root: the broker of the topic's sub-tree whose parent is outside the sub-tree;
- key item: a part of a topic, for example a bank account; a total-order message locks its key items at all members;
- entry queue: messages from clients that their edge broker delays, for example because of locked key items;
- passed: a message has passed a node when the node has forwarded it or, in total order, has locked its key items;
- processed: a total-order message is processed when all members have locked its key items;
- covered: the members that have locked the key items of a message, as far as a node knows;
- view: the brokers within maxHops links of a node; sibling: a child of the same parent;
- residual degree: the number of connections that a broker can still accept;
- breakDegree: a flag of ParentRequest that asks the broker to accept even if its residual degree is 0;
- orphan: a node whose parent failed; newcomer: a broker that joins or recovers and has had no parent since;
- under repair: the state of a node from a failure of its parent until the missed messages have arrived;
- exchange: two nodes that connect during a repair (partners) send each other the messages that the receiver lacks;
- body: the guarantee, key items and round of a message; a node may know only the id of a message;
- runs (`buffer.Runs`): a set of message ids, stored as intervals of consecutive numbers for each publisher;
- Exception: the request to a publisher for a message whose body has left the buffers; the answer is Repeat;
- burst: failures that follow each other within the time of a repair.
"""
