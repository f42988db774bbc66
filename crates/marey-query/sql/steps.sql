SELECT
    number,
    start_nanos,
    start_nanos + duration_nanos AS end_nanos,
    duration_nanos,
    path(context_id) AS path,
    thread_name(thread_id) AS thread,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id,
    context_id
FROM raw.steps
