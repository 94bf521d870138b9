-- Appends, closes, or both: every check and every effect in one step.
-- KEYS: meta, records, cuts, producers, blocks (prefix), live (channel)
-- ARGV: data, media type, message lengths, closes ('1' or ''), Stream-Seq,
--       producer id, epoch, sequence ('' without a producer), largest stream (bytes, 0 = any),
--       largest payload that travels with the wake-up (bytes), run of Redis,
--       and when more of the data is staged: in how many pieces, and how much there is in all
-- Returns {"ok", log, tail, closed, the sealer's attention ('now', 'later' or ''),
--          bytes not sealed yet}
--       | {"duplicate", log, tail, closed, highest sequence}
--       | {"missing"} | {"hidden"} | {"expired"} | {"other_run", log} | {"closed", log, tail} | {"other_type", content type}
--       | {"stale_epoch", current} | {"epoch_start"} | {"gap", expected}
--       | {"seq_regression", last} | {"too_large"}

-- The usual append ends here: functions are made anew in each run, and it does without any.
local found
if ARGV[4] == '' and ARGV[5] == '' and ARGV[6] == '' and not ARGV[12] then
  local meta, data, largest = KEYS[1], ARGV[1], tonumber(ARGV[9])
  found = redis.call('HMGET', meta, 'log', 'tail', 'closed', 'media', 'deadline', 'chunk',
    'grid', 'base', 'sealed', 'run', 'hidden')
  if found[10] == ARGV[11] and found[3] ~= '1' and found[4] == ARGV[2] and found[5] == ''
    and found[11] ~= '1' and #data > 0 then
    local log, tail, chunk, grid = found[1], tonumber(found[2]), tonumber(found[6]), tonumber(found[7])
    local stop, block = tail + #data, tail - tail % BLOCK
    if stop < chunk - chunk % grid + grid and stop <= block + BLOCK
      and (largest == 0 or stop <= largest) then
      local format, clock, base = string.format, redis.call('TIME'), tonumber(found[8])
      local new_tail, time = format('%.0f', stop), clock[1] .. format('%03d', clock[2] / 1000)
      if block < base then block = base end
      redis.call('APPEND', KEYS[5] .. log .. ':' .. format('%.0f', block), data)
      if ARGV[3] == '' then
        redis.call('XADD', KEYS[2], new_tail .. '-0', 't', time)
      else
        redis.call('XADD', KEYS[2], new_tail .. '-0', 't', time, 'm', ARGV[3], 'p', '', 's', '',
          'c', '')
      end
      redis.call('HSET', meta, 'tail', new_tail, 'written', time)
      redis.call('PUBLISH', KEYS[6], log .. ' ' .. found[2] .. ' ' .. new_tail .. ' open -1\n'
        .. (#data <= tonumber(ARGV[10]) and data or ''))
      return {'ok', log, new_tail, '', found[9] == found[2] and 'later' or '',
        format('%.0f', stop - found[9])}
    end
  end
end

-- include
local meta, records, cuts, producers, blocks, live = unpack(KEYS)
local data, media, lengths, closes, seq = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local producer, epoch, producer_seq = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local largest_stream, largest_inline = tonumber(ARGV[9]), tonumber(ARGV[10])
local run, staged = ARGV[11], tonumber(ARGV[12] or '0')
local size = #data
if staged > 0 then
  size = size + staged_bytes(blocks, staged)
  if size ~= tonumber(ARGV[13]) then return redis.error_reply('ERR staged data is not complete') end
end

found = found or redis.call('HMGET', meta, 'log', 'tail', 'closed', 'media', 'deadline', 'chunk',
  'grid', 'base', 'sealed', 'run', 'hidden')
local log, tail, deadline = found[1], tonumber(found[2]), found[5]
if not log then return {'missing'} end
if found[11] == '1' then return {'hidden'} end
local now = now_ms()
if has_expired(deadline, now) then return {'expired'} end
-- The run that took the last append may have told more offsets than it left behind.
if found[10] ~= run and found[10] ~= DURABLE then return {'other_run', log} end

local tuple = ''
if producer ~= '' then tuple = ARGV[7] .. ':' .. ARGV[8] .. ':' .. producer end

local changes = {}
if found[10] ~= run then changes = {'run', run} end
renew_lifetime(meta, deadline, now, changes)

if found[3] == '1' then
  local is_retry = tuple ~= '' and tuple == redis.call('HGET', meta, 'closed_by')
  local closes_again = size == 0 and closes and tuple == ''
  if not is_retry and not closes_again then return {'closed', log, found[2]} end
  if #changes > 0 then redis.call('HSET', meta, unpack(changes)) end
  if is_retry then return {'duplicate', log, found[2], '1', ARGV[8]} end
  return {'ok', log, found[2], '1', '', '0'}
end

if size > 0 and media ~= found[4] then
  return {'other_type', redis.call('HGET', meta, 'type')}
end

if producer ~= '' then
  local state = redis.call('HGET', producers, producer)
  if not state then
    if producer_seq ~= 0 then return {'gap', '0'} end
  else
    local known_epoch, last = string.match(state, '(%d+):(%d+)')
    known_epoch, last = tonumber(known_epoch), tonumber(last)
    if epoch < known_epoch then return {'stale_epoch', int(known_epoch)} end
    if epoch > known_epoch then
      if producer_seq ~= 0 then return {'epoch_start'} end
    elseif producer_seq <= last then
      if #changes > 0 then redis.call('HSET', meta, unpack(changes)) end
      return {'duplicate', log, found[2], '', int(last)}
    elseif producer_seq > last + 1 then
      return {'gap', int(last + 1)}
    end
  end
end

-- Lua's own comparison follows the locale of the Redis process.
local function comes_after(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

if seq ~= '' then
  local last = redis.call('HGET', meta, 'seq')
  if last ~= '' and not comes_after(seq, last) then return {'seq_regression', last} end
end
if largest_stream > 0 and tail + size > largest_stream then return {'too_large'} end

local base = tonumber(found[8])
store_bytes(blocks, log, base, tail, data)
store_staged(blocks, log, base, tail + #data, staged)
local chunk, cut = store_cuts(cuts, tonumber(found[6]), tonumber(found[7]), tail, size, lengths)
local new_tail, time = int(tail + size), int(now)
store_record(records, new_tail, size, lengths, time, tuple, seq, closes)
if producer ~= '' then redis.call('HSET', producers, producer, ARGV[7] .. ':' .. ARGV[8]) end

changes[#changes + 1] = 'tail'
changes[#changes + 1] = new_tail
if size > 0 then
  changes[#changes + 1] = 'written'
  changes[#changes + 1] = time
end
if cut >= 0 then
  changes[#changes + 1] = 'chunk'
  changes[#changes + 1] = int(chunk)
end
if seq ~= '' then
  changes[#changes + 1] = 'seq'
  changes[#changes + 1] = seq
end
if closes then
  changes[#changes + 1] = 'closed'
  changes[#changes + 1] = '1'
  changes[#changes + 1] = 'closed_by'
  changes[#changes + 1] = tuple
end
redis.call('HSET', meta, unpack(changes))

local state = closes and 'closed' or 'open'
local inline = size <= largest_inline and data or ''
tell_followers(live, log, found[2], new_tail, state, cut, inline)

local attention = found[9] == found[2] and 'later' or ''
if closes or cut >= 0 then attention = 'now' end
return {'ok', log, new_tail, closes and '1' or '', attention,
  int(tail + size - tonumber(found[9]))}
