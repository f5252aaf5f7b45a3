-- A lease does not depend on where its session thinks it is.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;

-- Granted at one end of the world, it stands at the other, and lasts as long.
SET TimeZone = 'Etc/GMT-14';
SELECT token AS t FROM fencing.acquire('zone/a', '10 minutes', 'w1') \gset
SELECT expires_at > clock_timestamp() AS stands,
    expires_at - clock_timestamp() BETWEEN '9 minutes' AND '10 minutes' AS remaining FROM fencing.lookup('zone/a');
SET TimeZone = 'Etc/GMT+12';
SELECT expires_at > clock_timestamp() AS stands,
    expires_at - clock_timestamp() BETWEEN '9 minutes' AND '10 minutes' AS remaining FROM fencing.lookup('zone/a');
SELECT count(*) FROM fencing.acquire('zone/a');
SELECT fencing.renew('zone/a', :t) - clock_timestamp() BETWEEN '9 minutes' AND '10 minutes' AS renewed;

-- A day has 24 hours, wherever clocks are put forward or back meanwhile. One of these spans a change at any date.
SET TimeZone = 'America/New_York';
SELECT days, extract(epoch FROM expires_at - acquired_at) = days * 86400 AS exact
FROM unnest(ARRAY[60, 120, 180, 240, 300]) AS days,
    fencing.acquire('zone/days ' || days, make_interval(days => days))
ORDER BY days;
SELECT token AS t FROM fencing.acquire('zone/renew', '1 hour') \gset
SELECT extract(epoch FROM fencing.renew('zone/renew', :t, '180 days') - clock_timestamp())
    BETWEEN 180 * 86400 - 60 AND 180 * 86400 AS exact;
-- A month is that of UTC: the session's zone does not move the day on which it ends.
SET TimeZone = 'Pacific/Kiritimati';
SELECT expires_at AT TIME ZONE 'UTC' = acquired_at AT TIME ZONE 'UTC' + interval '1 month' AS exact
FROM fencing.acquire('zone/month', '1 month');
SELECT expires_at AT TIME ZONE 'UTC' = acquired_at AT TIME ZONE 'UTC' + interval '1 year 2 months 3 days 4 hours' AS exact
FROM fencing.acquire('zone/mixed', '1 year 2 months 3 days 4 hours');
RESET TimeZone;
