"""Dynamic Resource Allocation: which devices of which pools a pod's claims would get on a node.

``check`` is what the one decision asks; nothing of it runs for pods without claims.
"""
