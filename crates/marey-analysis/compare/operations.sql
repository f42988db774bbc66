-- The processes that have steps, or all if none has: numbers are means over these processes.
WITH counted AS (
    SELECT
        process_id,
        step_count,
        divisor,
        first_nanos,
        last_nanos,
        count(*) OVER () AS process_count
    FROM (SELECT *, max(step_count) OVER () AS most_steps FROM step_summary)
    WHERE step_count > 0 OR most_steps = 0
)
SELECT
    path,
    name,
    kind,
    min(context_id) AS context_id,
    sum(count) AS count,
    sum(total_nanos) AS total_nanos,
    sum(self_nanos) AS self_nanos
FROM (
    SELECT
        path(s.context_id) AS path,
        name(s.name_id) AS name,
        kind(s.context_id) AS kind,
        s.context_id AS context_id,
        CAST(count(*) AS DOUBLE) / c.divisor / c.process_count AS count,
        CAST(sum(s.duration_nanos) AS DOUBLE) / c.divisor / c.process_count AS total_nanos,
        CAST(sum(s.self_nanos) AS DOUBLE) / c.divisor / c.process_count AS self_nanos
    FROM spans AS s
    JOIN counted AS c ON c.process_id = process_of(s.thread_id)
    -- Without steps everything counts, including spans of duration 0 at the very end.
    WHERE s.start_nanos >= c.first_nanos AND (s.start_nanos < c.last_nanos OR c.step_count = 0)
    GROUP BY c.process_id, c.divisor, c.process_count, s.context_id, s.name_id
)
-- Contexts with the same path and kind may differ in the kinds of their ancestors.
GROUP BY path, name, kind
