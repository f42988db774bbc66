SELECT
    time_nanos,
    name(name_id) AS name,
    value,
    integer,
    text,
    vector,
    path(context_id) AS path,
    thread_name(thread_id) AS thread,
    pid(process_of(thread_id)) AS pid,
    rank(process_of(thread_id)) AS rank,
    phase,
    process_of(thread_id) AS process_id,
    thread_id,
    context_id
FROM raw.metrics
