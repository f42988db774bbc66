SELECT
    id,
    parent_id,
    name(name_id) AS name
FROM raw.contexts
