SELECT
    device,
    name,
    type,
    properties,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM raw.devices
