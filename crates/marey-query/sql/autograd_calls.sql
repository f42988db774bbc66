-- Times of imported files may be rounded to microseconds, so that nested operators begin at the same
-- time. PyTorch's arrows point to the innermost of them, which is the shortest.
WITH
arrows AS (
    SELECT
        s.flow_id AS flow_id,
        s.thread_id AS forward_thread_id,
        s.time_nanos AS forward_start_nanos,
        e.thread_id AS thread_id,
        e.time_nanos AS start_nanos
    FROM raw.flows AS s
    JOIN raw.flows AS e
        ON e.flow_id = s.flow_id
        AND e.category_id = s.category_id
        AND process_of(e.thread_id) = process_of(s.thread_id)
    WHERE name(s.category_id) = 'fwdbwd' AND s.point = 'start' AND e.point = 'end'
),
operators AS (
    SELECT thread_id, start_nanos, duration_nanos, context_id, name_id
    FROM raw.spans
    WHERE kind(context_id) = 'operator'
),
calls AS (
    SELECT
        a.forward_thread_id AS forward_thread_id,
        a.forward_start_nanos AS forward_start_nanos,
        min(f.duration_nanos) AS forward_duration_nanos,
        first_value(f.context_id ORDER BY f.duration_nanos, f.context_id) AS forward_context,
        first_value(f.name_id ORDER BY f.duration_nanos, f.context_id) AS forward_name_id,
        a.thread_id AS thread_id,
        a.start_nanos AS start_nanos,
        min(b.duration_nanos) AS duration_nanos,
        first_value(b.context_id ORDER BY b.duration_nanos, b.context_id) AS context_id,
        first_value(b.name_id ORDER BY b.duration_nanos, b.context_id) AS name_id
    FROM arrows AS a
    JOIN operators AS f ON f.thread_id = a.forward_thread_id AND f.start_nanos = a.forward_start_nanos
    JOIN operators AS b ON b.thread_id = a.thread_id AND b.start_nanos = a.start_nanos
    GROUP BY a.flow_id, a.forward_thread_id, a.forward_start_nanos, a.thread_id, a.start_nanos
)
SELECT
    name(name_id) AS name,
    start_nanos,
    duration_nanos,
    name(forward_name_id) AS forward_name,
    path(forward_context) AS forward_path,
    forward_start_nanos,
    forward_duration_nanos,
    thread_name(thread_id) AS thread,
    pid(process_of(thread_id)) AS pid,
    rank(process_of(thread_id)) AS rank,
    process_of(thread_id) AS process_id,
    thread_id,
    context_id,
    forward_thread_id,
    forward_context
FROM calls
