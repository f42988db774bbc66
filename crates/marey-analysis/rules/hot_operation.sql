-- The exclusive time of each context within the steps. For a process with sums only (`is_sum`), the sums
-- of the whole recording; `all_nanos` is then the total exclusive time.
WITH entered AS (
    SELECT
        t.process_id AS process_id,
        s.context_id AS context_id,
        FALSE AS is_sum,
        max(t.window_nanos) AS window_nanos,
        max(t.divisor) AS divisor,
        sum(s.self_nanos) AS self_nanos,
        sum(s.duration_nanos) AS total_nanos,
        count(*) AS count
    FROM spans AS s
    INNER JOIN (
        SELECT
            t.id AS thread_id,
            t.process_id AS process_id,
            w.first_nanos AS first_nanos,
            w.last_nanos AS last_nanos,
            w.window_nanos AS window_nanos,
            w.divisor AS divisor
        FROM raw.threads AS t
        INNER JOIN step_summary AS w ON w.process_id = t.process_id
    ) AS t ON t.thread_id = s.thread_id
    WHERE
        s.start_nanos >= t.first_nanos
        AND s.start_nanos < t.last_nanos
        -- The span that PyTorch's profiler records around everything.
        AND coalesce(s.category, '') <> 'Trace'
    GROUP BY t.process_id, s.context_id
    UNION ALL
    SELECT
        process_of(thread_id) AS process_id,
        context_id,
        TRUE AS is_sum,
        NULL AS window_nanos,
        1 AS divisor,
        sum(self_nanos) AS self_nanos,
        sum(total_nanos) AS total_nanos,
        sum(count) AS count
    FROM raw.rollups
    WHERE
        bucket_nanos = 0
        AND process_of(thread_id) NOT IN (SELECT DISTINCT process_of(thread_id) FROM raw.spans)
    GROUP BY process_of(thread_id), context_id
),
-- Without the waits: early ranks wait in spans in which ranks wait for each other.
worked AS (
    SELECT
        e.process_id AS process_id,
        e.context_id AS context_id,
        e.is_sum AS is_sum,
        e.window_nanos AS window_nanos,
        e.divisor AS divisor,
        greatest(e.self_nanos - coalesce(w.wait_nanos, 0), 0) AS self_nanos,
        e.total_nanos AS total_nanos,
        e.count AS count
    FROM entered AS e
    LEFT JOIN rank_arrivals AS w ON w.process_id = e.process_id AND w.context_id = e.context_id
),
-- Summed by name and kind over all contexts.
names AS (
    SELECT
        g.process_id AS process_id,
        c.name_id AS name_id,
        c.kind AS kind,
        g.is_sum AS is_sum,
        max(g.window_nanos) AS window_nanos,
        max(g.divisor) AS divisor,
        sum(g.self_nanos) AS self_nanos,
        sum(g.count) AS count,
        first_value(g.context_id ORDER BY g.self_nanos DESC, g.context_id) AS context_id,
        sum(sum(g.self_nanos)) OVER process AS all_nanos,
        sum(sum(CASE WHEN name(c.name_id) LIKE 'autograd::engine::%' THEN g.total_nanos ELSE 0 END)) OVER process AS engine_nanos
    FROM worked AS g
    INNER JOIN raw.contexts AS c ON c.id = g.context_id
    GROUP BY g.process_id, c.name_id, c.kind, g.is_sum
    WINDOW process AS (PARTITION BY g.process_id)
),
-- The busy time of the busiest device of each process: a step takes that long whatever the host does.
devices AS (
    SELECT
        process_id,
        max(busy_nanos) AS busy_nanos
    FROM (
        SELECT
            a.process_id AS process_id,
            a.device AS device,
            union_nanos(a.start_nanos, least(a.start_nanos + a.duration_nanos, w.last_nanos)) AS busy_nanos
        FROM raw.gpu_activities AS a
        INNER JOIN step_summary AS w ON w.process_id = a.process_id
        WHERE
            a.kind IN ('kernel', 'memcpy', 'memset')
            AND a.start_nanos >= w.first_nanos
            AND a.start_nanos < w.last_nanos
        GROUP BY a.process_id, a.device
    ) AS d
    GROUP BY process_id
),
host AS (
    SELECT
        n.process_id AS process_id,
        'host' AS side,
        n.name_id AS name_id,
        n.kind AS kind,
        CAST(NULL AS INTEGER UNSIGNED) AS device,
        n.context_id AS context_id,
        n.count AS count,
        -- PyTorch runs the backward pass on a thread of its own, and names with "backward" wait for it.
        CASE
            WHEN n.kind IN ('scope', 'state', 'frame') AND name(n.name_id) ILIKE '%backward%'
            THEN greatest(n.self_nanos - n.engine_nanos, 0)
            ELSE n.self_nanos
        END AS self_nanos,
        greatest(CASE WHEN n.is_sum THEN n.all_nanos ELSE n.window_nanos - coalesce(d.busy_nanos, 0) END, 0) AS limit_nanos,
        CASE WHEN n.is_sum THEN n.all_nanos ELSE n.window_nanos END AS window_nanos,
        n.divisor AS divisor
    FROM names AS n
    LEFT JOIN devices AS d ON d.process_id = n.process_id
    WHERE
        n.kind <> 'step'
        -- A call that waits does no work.
        AND NOT (n.kind = 'runtime' AND name(n.name_id) LIKE '%Synchronize%')
        AND NOT (
            n.kind = 'frame'
            AND regexp_like(name(n.name_id), '^<built-in method (acquire|poll|select|wait|accept|recv)\b')
        )
        -- PyTorch's span for a collective: the time waiting for other ranks.
        AND NOT regexp_like(name(n.name_id), '^(nccl|gloo|mpi|ucc|xccl|hccl):')
),
-- Kernels, filtered to compute below: other rules cover communication and copies.
kernels AS (
    SELECT
        a.process_id AS process_id,
        'device' AS side,
        a.name_id AS name_id,
        'kernel' AS kind,
        a.device AS device,
        first_value(a.context_id ORDER BY a.duration_nanos DESC, a.context_id) AS context_id,
        count(*) AS count,
        union_nanos(a.start_nanos, least(a.start_nanos + a.duration_nanos, w.last_nanos)) AS self_nanos,
        max(w.window_nanos) AS limit_nanos,
        max(w.window_nanos) AS window_nanos,
        max(w.divisor) AS divisor
    FROM raw.gpu_activities AS a
    INNER JOIN step_summary AS w ON w.process_id = a.process_id
    WHERE
        a.kind = 'kernel'
        AND a.start_nanos >= w.first_nanos
        AND a.start_nanos < w.last_nanos
    GROUP BY a.process_id, a.device, a.name_id
),
shares AS (
    SELECT
        *,
        CAST(self_nanos AS DOUBLE) / divisor AS impact_nanos,
        CAST(least(self_nanos, limit_nanos) AS DOUBLE) / divisor AS gain_nanos,
        100.0 * self_nanos / window_nanos AS impact_percent
    FROM (
        SELECT * FROM host
        UNION ALL
        SELECT * FROM kernels
    ) AS sides
    WHERE self_nanos > 0 AND window_nanos > 0
)
SELECT
    name(name_id) AS subject,
    CAST(CASE WHEN impact_percent > {high_percent} THEN 'high' ELSE 'medium' END AS VARCHAR) AS severity,
    impact_nanos,
    impact_percent,
    gain_nanos,
    CAST('measured' AS VARCHAR) AS confidence,
    rank(process_id) AS rank,
    process_id,
    CAST(side AS VARCHAR) AS side,
    CAST(kind AS VARCHAR) AS kind,
    count,
    self_nanos,
    CAST(self_nanos AS DOUBLE) / count AS mean_nanos,
    device,
    pid(process_id) AS pid,
    -- Of the host, the context with most of the time; of a kernel, that of its longest run.
    coalesce(path(s.context_id), 'an unknown call') AS path,
    m.module AS module,
    m.call_site AS call_site,
    concat(', for the module ' || m.module, ', called at ' || m.call_site) AS place
FROM shares AS s
LEFT JOIN context_modules AS m ON m.context_id = s.context_id
WHERE
    impact_percent > {medium_percent}
    AND (side = 'host' OR gpu_class('kernel', name(name_id)) = 'compute')
ORDER BY impact_nanos DESC, process_id, side, device, subject, kind
LIMIT 5
