SELECT
    time_nanos,
    name(name_id) AS name,
    scope,
    name(category_id) AS category,
    thread_name(thread_id) AS thread,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id,
    args(args_id, arg_numbers) AS args
FROM raw.instants
