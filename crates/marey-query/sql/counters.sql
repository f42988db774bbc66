SELECT
    time_nanos,
    name(name_id) AS name,
    value,
    integer,
    text,
    vector,
    device,
    path(context_id) AS path,
    thread_name(thread_id) AS thread,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    phase,
    process_id,
    thread_id,
    context_id
FROM (
    SELECT
        time_nanos,
        name_id,
        value,
        integer,
        text,
        vector,
        CAST(NULL AS INT UNSIGNED) AS device,
        phase,
        process_of(thread_id) AS process_id,
        thread_id,
        context_id
    FROM raw.metrics
    UNION ALL
    SELECT
        time_nanos,
        name_id,
        value,
        NULL AS integer,
        NULL AS text,
        NULL AS vector,
        device,
        NULL AS phase,
        process_id,
        NULL AS thread_id,
        NULL AS context_id
    FROM raw.counters
) AS both_kinds
