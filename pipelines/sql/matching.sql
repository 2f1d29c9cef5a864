-- Which publication satisfies which subscription?
-- One row per run, subscription and publication that satisfies the predicate of the subscription: every comparison of
-- the predicate holds, independently of rounds. A missing attribute satisfies no comparison, not even !=. A number
-- never equals a string; true and false are strings. A topic filter is compared level by level (MQTT 5.0, section 4.7).
-- For speed, the query joins comparisons with = by attribute and value, and all other comparisons by attribute only.
with item as (
  select run_id, source, source_seq, content, explode(from_json(content, 'map<string,string>')) as (attribute, value)
  from publication
), marked as (
  -- In compact JSON a quote precedes a string value: "name":"
  select *, substr(to_json(map(attribute, '')), 2, length(to_json(map(attribute, ''))) - 3) as mark
  from item
), typed as (
  select run_id, source, source_seq, attribute, value,
    value in ('true', 'false') or contains(content, concat('{', mark)) or contains(content, concat(',', mark)) as is_text
  from marked
), attribute as (
  select run_id, source, source_seq, attribute,
    case when is_text then value end as value_text,
    case when not is_text then try_cast(value as double) + 0.0D end as value_number,
    case when not is_text then try_cast(value as bigint) end as digits
  from typed
  union all
  select run_id, source, source_seq, 'topic', topic, cast(null as double), cast(null as bigint)
  from publication
  where topic is not null
), exact as (
  -- A double below 2^63 such as 1e18 is an integer, too.
  select run_id, source, source_seq, attribute, value_text, value_number,
    coalesce(digits, case when value_number % 1 = 0 and value_number < 9223372036854775808D
                            and value_number >= -9223372036854775808D
                          then try_cast(value_number as bigint) end) as value_whole
  from attribute
), valued as (
  -- As a double, 2^63 - 1 becomes 2^63, so the largest integers are rounded down.
  select run_id, source, source_seq, attribute, value_text, value_whole,
    case when value_whole is not null then least(value_number, 9223372036854774784D) else value_number end
      as value_number
  from exact
), probed as (
  select *, explode(array(coalesce(concat('t', value_text), concat('n', cast(value_number as string))), '*')) as probe
  from valued
), compared as (
  select run_id, subscription_id, attribute, op, number, whole, text,
    case when op = '=' then coalesce(concat('t', text), concat('n', cast(number + 0.0D as string))) else '*' end as probe,
    count(1) over (partition by run_id, subscription_id) as n_comparisons
  from predicate
), satisfied as (
  select c.run_id, c.subscription_id, c.n_comparisons, v.source, v.source_seq
  from compared c
  join probed v on v.run_id = c.run_id and v.attribute = c.attribute and v.probe = c.probe
  where case c.op
    when '=' then c.whole is null or v.value_whole is null or v.value_whole = c.whole
    when '!=' then case when c.number is null then v.value_text is null or v.value_text <> c.text
                        when c.whole is null or v.value_whole is null then
                          v.value_number is null or v.value_number <> c.number
                        else v.value_whole <> c.whole end
    when '<' then case when c.number is null then v.value_text < c.text
                       when v.value_number = c.number then v.value_whole < c.whole
                       else v.value_number < c.number end
    when '<=' then case when c.number is null then v.value_text <= c.text
                        when v.value_number = c.number then coalesce(v.value_whole <= c.whole, true)
                        else v.value_number < c.number end
    when '>' then case when c.number is null then v.value_text > c.text
                       when v.value_number = c.number then v.value_whole > c.whole
                       else v.value_number > c.number end
    when '>=' then case when c.number is null then v.value_text >= c.text
                        when v.value_number = c.number then coalesce(v.value_whole >= c.whole, true)
                        else v.value_number > c.number end
    when 'prefix' then startswith(v.value_text, c.text)
    when 'suffix' then endswith(v.value_text, c.text)
    when 'contains' then contains(v.value_text, c.text)
    when 'filter' then
      case
        when v.value_text is null or (startswith(v.value_text, '$') and substr(c.text, 1, 1) in ('+', '#')) then false
        when c.text = '#' then true
        when size(split(v.value_text, '/')) < size(split(c.text, '/')) - int(endswith(c.text, '/#')) then false
        when size(split(v.value_text, '/')) > size(split(c.text, '/')) and not endswith(c.text, '/#') then false
        else forall(
          sequence(1, size(split(c.text, '/')) - int(endswith(c.text, '/#'))),
          -- An engine may evaluate this expression for rows of other branches, so indexes must stay within the topic.
          i -> element_at(split(c.text, '/'), i)
            in ('+', element_at(split(v.value_text, '/'), least(i, size(split(v.value_text, '/')))))
        )
      end
  end
)
select run_id, subscription_id, source, source_seq
from satisfied
group by run_id, subscription_id, source, source_seq, n_comparisons
having count(1) = n_comparisons
