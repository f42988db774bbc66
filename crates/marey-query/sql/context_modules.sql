WITH RECURSIVE
-- By autograd node, the forward operator that made most of its calls by time.
forward AS (
    SELECT
        context_id,
        first_value(forward_context ORDER BY nanos DESC, forward_context) AS forward_context
    FROM (
        SELECT
            context_id,
            forward_context,
            sum(duration_nanos) AS nanos
        FROM autograd_calls
        GROUP BY context_id, forward_context
    )
    GROUP BY context_id
),
-- Every context with the innermost module around it.
inside AS (
    SELECT
        id AS context_id,
        CASE WHEN kind = 'module' THEN id END AS module_id
    FROM raw.contexts
    WHERE parent_id IS NULL
    UNION ALL
    SELECT
        c.id AS context_id,
        CASE WHEN c.kind = 'module' THEN c.id ELSE i.module_id END AS module_id
    FROM inside AS i
    JOIN raw.contexts AS c ON c.parent_id = i.context_id
    -- Parents have lower ids than their children; the check ends a cycle in a damaged run.
    WHERE c.id > i.context_id
),
-- Autograd nodes with the module of the forward operator, and the contexts below them.
backward AS (
    SELECT
        c.id AS context_id,
        i.module_id AS module_id
    FROM forward AS f
    JOIN raw.contexts AS c ON c.id = f.context_id
    JOIN inside AS i ON i.context_id = f.forward_context
    UNION ALL
    SELECT
        c.id AS context_id,
        b.module_id AS module_id
    FROM backward AS b
    JOIN raw.contexts AS c ON c.parent_id = b.context_id
    WHERE c.id > b.context_id
),
modules AS (
    SELECT
        context_id,
        max(module_id) AS module_id,
        bool_or(is_backward) AS is_backward
    FROM (
        SELECT context_id, module_id, TRUE AS is_backward FROM backward
        UNION ALL
        SELECT context_id, module_id, FALSE AS is_backward
        FROM inside
        WHERE context_id NOT IN (SELECT context_id FROM backward)
    )
    WHERE module_id IS NOT NULL
    GROUP BY context_id
),
call_sites AS (
    SELECT
        context_id,
        min(text) AS call_site
    FROM raw.metrics
    WHERE name(name_id) = 'call_site'
    GROUP BY context_id
)
SELECT
    m.context_id AS context_id,
    name(c.name_id) AS module,
    s.call_site AS call_site,
    m.is_backward AS is_backward,
    path(m.module_id) AS path,
    m.module_id AS module_context
FROM modules AS m
JOIN raw.contexts AS c ON c.id = m.module_id
LEFT JOIN call_sites AS s ON s.context_id = m.module_id
