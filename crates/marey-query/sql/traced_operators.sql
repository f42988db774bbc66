WITH RECURSIVE
operators AS (
    SELECT
        name_id,
        start_nanos,
        duration_nanos,
        -- As in `spans`, which has no `args_id`: joining all arguments to test them takes a fifth longer.
        duration_nanos - children_nanos AS self_nanos,
        thread_id,
        context_id,
        args(args_id, arg_numbers) AS args
    FROM raw.spans
    WHERE
        args_id IS NOT NULL
        AND kind(context_id) = 'operator'
        -- Others have arguments from marey alone: the shapes of a sample.
        AND (
            external_id IS NOT NULL
            OR arg(args(args_id, arg_numbers), 'Record function id') IS NOT NULL
            OR arg(args(args_id, arg_numbers), 'Ev Idx') IS NOT NULL
        )
),
ancestors AS (
    SELECT id AS context_id, id AS operator_id, parent_id
    FROM raw.contexts
    WHERE id IN (SELECT context_id FROM operators)
    UNION ALL
    SELECT c.id AS context_id, a.operator_id AS operator_id, c.parent_id AS parent_id
    FROM ancestors AS a
    JOIN raw.contexts AS c ON c.id = a.parent_id
    -- Parents have lower ids than their children; the check ends a cycle in a damaged run.
    WHERE c.id < a.context_id
),
modules AS (
    SELECT operator_id, max(context_id) AS context_id
    FROM ancestors
    WHERE kind(context_id) = 'module'
    GROUP BY operator_id
)
SELECT
    name(o.name_id) AS name,
    o.start_nanos AS start_nanos,
    o.duration_nanos AS duration_nanos,
    o.self_nanos AS self_nanos,
    coalesce(arg(o.args, 'Module Hierarchy'), name(c.name_id)) AS module,
    arg(o.args, 'Call stack') AS call_stack,
    arg(o.args, 'Input Dims') AS input_dims,
    arg(o.args, 'Input type') AS input_types,
    arg(o.args, 'Input Strides') AS input_strides,
    arg(o.args, 'Concrete Inputs') AS concrete_inputs,
    coalesce(
        TRY_CAST(arg(o.args, 'flops') AS DOUBLE),
        -- The name without the overload.
        op_flops(split_part(name(o.name_id), '.', 1), o.args)
    ) AS flops,
    TRY_CAST(arg(o.args, 'Record function id') AS BIGINT) AS record_function_id,
    TRY_CAST(arg(o.args, 'Sequence number') AS BIGINT) AS sequence,
    TRY_CAST(arg(o.args, 'Fwd thread id') AS BIGINT) AS forward_thread,
    path(o.context_id) AS path,
    thread_name(o.thread_id) AS thread,
    pid(process_of(o.thread_id)) AS pid,
    rank(process_of(o.thread_id)) AS rank,
    process_of(o.thread_id) AS process_id,
    o.thread_id AS thread_id,
    o.context_id AS context_id,
    o.args AS args
FROM operators AS o
LEFT JOIN modules AS m ON m.operator_id = o.context_id
LEFT JOIN raw.contexts AS c ON c.id = m.context_id
