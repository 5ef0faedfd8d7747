"""The audit trail: a file with a hash-chained record of every call, its writer, its reader and its verification."""
