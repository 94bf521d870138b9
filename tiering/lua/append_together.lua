-- Plain appends to one stream: each as if it had come by itself, one after the other.
-- KEYS: meta, records, cuts, blocks (prefix), live (channel)
-- ARGV: data of all (as much as travels with a wake-up), media type, for each append its size and
--       how many of the message lengths are its own (u32 little-endian each), message lengths of
--       all, largest stream (bytes, 0 = any), run of Redis
-- Returns {"ok", log, tail before, the sealer's attention ('now', 'later' or ''),
--          bytes not sealed yet}
--       | {"apart"}: not all of them would be taken, or not as a matter of course; nothing was done
local meta, records, cuts, blocks, live = unpack(KEYS)
local data, media, appends, lengths = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local largest_stream, run = tonumber(ARGV[5]), ARGV[6]

local found = redis.call('HMGET', meta, 'log', 'tail', 'closed', 'media', 'deadline', 'chunk',
  'grid', 'base', 'sealed', 'run', 'hidden')
local log, tail, deadline, now = found[1], tonumber(found[2]), found[5], now_ms()
if not log or found[11] == '1' or found[10] ~= run then return {'apart'} end
if has_expired(deadline, now) or found[3] == '1' or found[4] ~= media then return {'apart'} end
if largest_stream > 0 and tail + #data > largest_stream then return {'apart'} end

store_bytes(blocks, log, tonumber(found[8]), tail, data)
local chunk, grid, cut, time = tonumber(found[6]), tonumber(found[7]), -1, int(now)
local position, message = tail, 1
for at = 1, #appends, 8 do
  local size, count = struct.unpack('<I4I4', appends, at)
  local own = string.sub(lengths, message, message + 4 * count - 1)
  local first
  chunk, first = store_cuts(cuts, chunk, grid, position, size, own)
  if cut < 0 then cut = first end
  position, message = position + size, message + 4 * count
  store_record(records, int(position), size, own, time, '', '', false)
end

local new_tail = int(position)
local changes = {'tail', new_tail, 'written', time, 'chunk', int(chunk)}
renew_lifetime(meta, deadline, now, changes)
redis.call('HSET', meta, unpack(changes))
tell_followers(live, log, found[2], new_tail, 'open', cut, data)

local attention = found[9] == found[2] and 'later' or ''
if cut >= 0 then attention = 'now' end
return {'ok', log, found[2], attention, int(position - tonumber(found[9]))}
