SELECT
    time_nanos,
    name(function_id) AS func,
    name(file_id) AS file,
    line AS lineno,
    name(name_id) AS name,
    coalesce(text, CAST(integer AS VARCHAR), CAST(value AS VARCHAR)) AS value,
    value AS number,
    name(type_id) AS value_type,
    thread_name(thread_id) AS thread,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id
FROM raw.variables
