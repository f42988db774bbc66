-- Nested calls, such as a driver call within a runtime call, may share a correlation id: the outermost begins first.
SELECT
    name(name_id) AS name,
    start_nanos,
    start_nanos + duration_nanos AS end_nanos,
    duration_nanos,
    thread_name(thread_id) AS thread,
    correlation_id,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id,
    name_id
FROM (
    SELECT
        process_of(thread_id) AS process_id,
        correlation_id,
        min(start_nanos) AS start_nanos,
        first_value(duration_nanos ORDER BY start_nanos, duration_nanos DESC) AS duration_nanos,
        first_value(name_id ORDER BY start_nanos, duration_nanos DESC) AS name_id,
        first_value(thread_id ORDER BY start_nanos, duration_nanos DESC) AS thread_id
    FROM raw.spans
    WHERE correlation_id > 0 AND kind(context_id) = 'runtime'
    GROUP BY process_of(thread_id), correlation_id
)
