-- A name that ends in the number of its step, as `iteration 8` does in step 8, differs between runs and
-- steps: its number is removed if at least two siblings are numbered this way.
WITH numbered AS (
    SELECT
        id,
        parent_id,
        kind,
        regexp_replace(name, '[0-9]+$', '') AS stem,
        CAST(regexp_replace(name, '^.*[^0-9]', '') AS BIGINT) AS number
    FROM (
        SELECT
            id,
            parent_id,
            kind,
            name(name_id) AS name
        FROM raw.contexts
    ) AS c
    WHERE kind <> 'step' AND regexp_like(name, '[^0-9][0-9]{1,9}$')
),
of_steps AS (
    SELECT
        n.id AS id,
        n.stem AS stem,
        count(*) OVER (PARTITION BY n.parent_id, n.kind, n.stem) AS sibling_count
    FROM numbered AS n
    INNER JOIN raw.spans AS s ON s.context_id = n.id
    LEFT JOIN raw.steps AS t
        ON t.process_id = process_of(s.thread_id)
        AND t.number = n.number
        AND t.start_nanos < s.start_nanos + s.duration_nanos
        AND t.start_nanos + t.duration_nanos > s.start_nanos
    GROUP BY n.id, n.parent_id, n.kind, n.stem
    HAVING count(*) = count(t.number)
)
SELECT
    c.id AS id,
    c.parent_id AS parent_id,
    CASE WHEN o.sibling_count > 1 THEN rtrim(o.stem) ELSE name(c.name_id) END AS name
FROM raw.contexts AS c
LEFT JOIN of_steps AS o ON o.id = c.id
