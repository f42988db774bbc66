SELECT
    name(name_id) AS name,
    name(track_id) AS track,
    start_nanos,
    start_nanos + duration_nanos AS end_nanos,
    duration_nanos,
    is_open,
    name(category_id) AS category,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    args(args_id, arg_numbers) AS args
FROM raw.async_spans
