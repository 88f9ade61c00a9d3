select count(*) from queues.orders
SELECT Count(*), COUNT(label), count(DISTINCT label), sum(priority), avg(priority) from queues.orders
select min(lookup_id), max(label), min(arrived_time), max(body), max(day), mean(lookup_id) from queues.orders
select count_if(authenticated) n, count(*) filter (where priority > 2) m from queues.orders
select sum(distinct priority) a, avg(distinct priority) b from queues.orders where lookup_id < 100
select * from queues.orders order by lookup_id
select o.*, 1 as one, 'x', true from queues.orders o order by lookup_id desc limit 3
select LABEL, Priority as P from queues.orders order by p, label
select label, priority from queues.orders order by priority desc, label nulls last, lookup_id
select label, priority from queues.orders order by priority asc nulls last, 1 desc, lookup_id limit 4 offset 2
select label, count(*) n, sum(priority) s from queues.orders group by label having n > 0 order by n desc, label
select upper(label) u, count(*) from queues.orders group by upper(label) order by u
select priority % 3 r, count(*) c from queues.orders group by 1 order by 1
select authenticated, priority, count(*) c from queues.orders group by all order by c, 1, 2
select distinct label from queues.orders order by label
select count(*) from queues.orders where label = 'straße' or label is null and not authenticated
select lookup_id from queues.orders where priority between 1 and 5 and label not like '%a%' order by 1
select lookup_id from queues.orders where label in ('straße', '') order by 1
select lookup_id from queues.orders where priority not in (5, 3) order by 1
select lookup_id from queues.orders where label like '%"_"' or label like 'line%tab' order by 1
select lookup_id from queues.orders where arrived_time >= '2026-02-01' and arrived_time < timestamp '2026-03-01 00:00:00' order by 1
select lookup_id from queues.orders where day = '2026-02-01' or day = date '2024-02-29' order by 1
select lookup_id from queues.orders where arrived_time > now() - interval 1 hour order by 1
select lookup_id from queues.orders where label <=> 'straße' or priority <=> 0 order by 1
select lookup_id, arrived_time + interval 90 minutes a, arrived_time - interval '2' days b from queues.orders order by 1
select lookup_id, priority + 1 a, priority - lookup_id % 7 b, -priority c, lookup_id % 9 * 2 d from queues.orders order by 1
select lookup_id, priority / 4 a, priority / (lookup_id + 1) b, priority % 4 c from queues.orders order by 1
select upper(label), lower(label), length(label), length(body), octet_length(label) from queues.orders order by lookup_id
select trim(label) a, left(label, 3) b, right(label, 2) c, substring(label, 2, 3) d, substr(label, 3) e from queues.orders order by lookup_id
select replace(label, 's', 'SS') a, label || '!' b, concat(label, '-', label) c, instr(label, 'e') d from queues.orders order by lookup_id
select startswith(label, 'str') a, endswith(label, 'ße') b, contains(label, 'i') c from queues.orders order by lookup_id
select hex(label) a, hex(body) b, base64(body) c from queues.orders order by lookup_id
select coalesce(label, 'none') a, ifnull(priority, 0) b, nvl(priority, 5000000000) c, nullif(label, '') d from queues.orders order by lookup_id
select if(priority > 2, 'high', 'low') a, isnull(label) b, isnotnull(label) c from queues.orders order by lookup_id
select case when priority > 4 then 'a' when priority > 2 then 'b' end a, case label when '' then 1 else 2 end b, case when authenticated then priority else lookup_id end c from queues.orders order by lookup_id
select year(arrived_time), quarter(day), month(arrived_time), day(arrived_time), hour(arrived_time), minute(arrived_time), second(arrived_time) from queues.orders order by lookup_id
select dayofmonth(day) a, dayofyear(day) b, dayofweek(day) c, weekofyear(arrived_time) d, date(arrived_time) e, to_date(arrived_time) f from queues.orders order by lookup_id
select date_format(arrived_time, 'yyyy-MM-dd HH:mm:ss') a, date_format(arrived_time, 'dd/MM/yyyy') b from queues.orders order by lookup_id
select unix_seconds(arrived_time) a, unix_millis(arrived_time) b, unix_micros(arrived_time) c from queues.orders order by lookup_id
select datediff(day, date '2026-01-01') a, date_diff(date '2026-01-01', day) b from queues.orders order by lookup_id
select abs(priority) a, abs(lookup_id) b, floor(priority / 4) c, ceil(priority / 4) d, ceiling(priority) e from queues.orders order by lookup_id
select round(avg(priority), 2) a, round(avg(lookup_id % 10) / 3, 5) b, round(avg(priority)) c from queues.orders where lookup_id < 100
select round(priority / 8, 2) r from queues.orders order by lookup_id
select size(journal) a, cardinality(journal) b, array_size(journal) c, array_contains(journal, 'positive') d from queues.orders order by lookup_id
select cast(priority as bigint) a, cast(priority as string) b, cast(authenticated as int) c, cast(priority as double) d, cast(arrived_time as date) e, cast(day as timestamp) f, cast(day as string) g, cast(authenticated as string) h from queues.orders order by lookup_id
select cast(body as string) a, cast(cast(body as string) as bigint) b from queues.orders where lookup_id in (5, 6, 8) order by lookup_id
select cast(label as binary) a, cast(body as string) b from queues.orders order by lookup_id
select char_length(label) a, character_length(label) b, len(label) c, ucase(label) d, lcase(label) e, ltrim(label) f, rtrim(label) g from queues.orders order by lookup_id
select a.lookup_id, b.label from queues.orders a join journals.orders b on a.lookup_id = b.lookup_id where b.priority > 1 order by 1
select orders.lookup_id, d.lookup_id x from queues.orders left join system.deadletter d on orders.lookup_id = d.lookup_id + 1 order by 1
select count(*) n from queues.orders a cross join queues.orders b
select queues.orders.label from queues.orders where queues.orders.lookup_id = 2
select n, count(*) c from (select label l, count(*) n from queues.orders group by label) group by n order by n
with a as (select label, priority from queues.orders), b as (select label, max(priority) p from a group by label) select b.label, p from b where p > 0 order by p, label
select label from queues.orders union all select 'more' order by label
select 1 as n, -5, 3000000000 as m, 'it', timestamp '2026-01-01 10:20:30.5' as t, date '2026-01-01' as d
select count(*) from queues.`odd name`
select `label` from `queues`.`orders` o where o.`lookup_id` = 2
select lookup_id % 2 p, count(*) c from queues.orders group by lookup_id % 2 order by count(*) desc, p
select priority p from queues.orders order by p + 1 desc, lookup_id
select sum(priority) from queues.orders where lookup_id > 999 and lookup_id < 1000
select label, count(*) c from queues.orders where false group by label
select date(current_timestamp()) = current_date() a, curdate() = current_date b from queues.orders limit 1
show tables in queues like 'o*'
select 'a' x union all select label from queues.orders where label is null
select date_trunc('year', arrived_time) t0, date_trunc('QUARTER', arrived_time) t1, date_trunc('month', arrived_time) t2, date_trunc('week', arrived_time) t3, date_trunc('day', arrived_time) t4, date_trunc('hour', arrived_time) t5, date_trunc('minute', arrived_time) t6, date_trunc('second', arrived_time) t7 from queues.orders order by lookup_id
select * from posthouse.alpha.orders order by lookup_id limit 2
select posthouse.alpha.orders.label, alpha.orders.priority, orders.lookup_id from Posthouse.Alpha.Orders order by 3
select alpha.label from posthouse.alpha.`orders;journal` alpha order by lookup_id
select a.label, queues.orders.priority from posthouse.alpha.orders a join queues.orders on a.lookup_id = queues.orders.lookup_id order by 1, 2
