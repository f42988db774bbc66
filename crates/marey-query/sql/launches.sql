SELECT
    name(l.name_id) AS launch_name,
    l.start_nanos AS launch_start_nanos,
    l.duration_nanos AS launch_duration_nanos,
    thread_name(l.thread_id) AS thread,
    name(g.name_id) AS name,
    g.kind AS kind,
    g.device AS device,
    g.stream AS stream,
    g.start_nanos AS start_nanos,
    g.start_nanos + g.duration_nanos AS end_nanos,
    g.duration_nanos AS duration_nanos,
    greatest(g.start_nanos - l.start_nanos - l.duration_nanos, 0) AS launch_delay_nanos,
    g.start_nanos - l.start_nanos AS queue_nanos,
    count(*) OVER (PARTITION BY g.process_id, g.correlation_id) AS launched,
    path(g.context_id) AS path,
    g.graph_node_id AS graph_node_id,
    g.correlation_id AS correlation_id,
    pid(g.process_id) AS pid,
    rank(g.process_id) AS rank,
    g.process_id AS process_id,
    l.thread_id AS thread_id,
    g.context_id AS context_id
FROM raw.gpu_activities AS g
JOIN runtime_calls AS l ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
WHERE g.kind NOT IN ('sync', 'annotation')
