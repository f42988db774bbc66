SELECT
    name(name_id) AS name,
    kind(context_id) AS kind,
    start_nanos,
    start_nanos + duration_nanos AS end_nanos,
    duration_nanos,
    duration_nanos - children_nanos AS self_nanos,
    path(context_id) AS path,
    depth(context_id) AS depth,
    thread_name(thread_id) AS thread,
    pid(process_of(thread_id)) AS pid,
    rank(process_of(thread_id)) AS rank,
    phase,
    is_open,
    process_of(thread_id) AS process_id,
    thread_id,
    context_id,
    name_id
FROM raw.spans
