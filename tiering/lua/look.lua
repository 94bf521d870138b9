-- The facts of one instant, and the chunk that a position lies in. Renews a sliding lifetime.
-- KEYS: meta, records, cuts, sealed
-- ARGV: position ('start', 'now' or a number), renew ('1' or ''),
--       for a fork that reads through the stream ('1' or '')
-- Returns {"ok", grid, now, log, chain, content type, ttl, expires, expires text, deadline, closed,
--          tail, earliest, sealed, base, position, chunk end (-1: not complete),
--          start of the chunk's object (-1: it has none), the log that object is named by,
--          on a message boundary ('1', '' or '?': the sealed piece knows), snapshot (or '')}
--       | {"missing"} | {"expired"} | {"hidden"}
local meta, records, cuts, sealed = unpack(KEYS)
local from, renew, for_fork = ARGV[1], ARGV[2] == '1', ARGV[3] == '1'

local found = redis.call('HMGET', meta, 'log', 'chain', 'type', 'ttl', 'expires', 'expires_text',
  'deadline', 'closed', 'tail', 'earliest', 'media', 'sealed', 'base',
  'hidden', 'border', 'grid', 'snapshot')
if not found[1] then return {'missing'} end
local now = now_ms()
if not for_fork then
  if found[14] == '1' then return {'hidden'} end
  if has_expired(found[7], now) then return {'expired'} end
end

-- Written only when it moves by a twentieth of the window: each write is an fsync.
if renew and found[4] ~= '' then
  local window = tonumber(found[4]) * 1000
  if now + window - tonumber(found[7]) >= math.min(1000, window / 20) then
    found[7] = int(now + window)
    redis.call('HSET', meta, 'deadline', found[7])
  end
end

local tail = tonumber(found[9])
local position = tonumber(from)
if from == 'start' then position = tonumber(found[10]) end
if from == 'now' then position = tail end

local frontier = tonumber(found[12])
-- What lies before a fork's border is looked up where it comes from.
local border = tonumber(found[15])
local at = math.max(position, border)
local chunk_end, object_start, object_log = -1, -1, ''
if at < frontier then
  local piece = redis.call('ZREVRANGEBYSCORE', sealed, int(at), '-inf', 'LIMIT', 0, 1)[1]
  -- None where it is not retained any more.
  local kind, start, stop, log = string.match(piece or '', '(%a+):(%d+):(%d+):(%d+)')
  if kind == 'chunk' then
    object_start, chunk_end, object_log = tonumber(start), tonumber(stop), log
  end
end
if chunk_end < 0 and at < tail then
  local cut = redis.call('ZRANGEBYSCORE', cuts, '(' .. int(at), '+inf', 'LIMIT', 0, 1)
  if cut[1] then chunk_end = tonumber(cut[1]) end
end

local function on_boundary()
  if found[11] ~= 'application/json' or position <= 0 or position >= tail then return '1' end
  if position == frontier or position <= border then return '1' end
  if position < frontier then return '?' end
  local entry = redis.call('XRANGE', records, int(position), '+', 'COUNT', 1)[1]
  if not entry then return '' end
  local append_end = tonumber(string.match(entry[1], '%d+'))
  if append_end == position then return '1' end
  local lengths, boundary = entry[2][4] or '', append_end
  for at = #lengths - 3, 1, -4 do
    boundary = boundary - struct.unpack('<I4', lengths, at)
    if boundary <= position then return boundary == position and '1' or '' end
  end
  return ''
end

return {'ok', found[16], int(now), found[1], found[2], found[3], found[4], found[5], found[6], found[7],
  found[8], found[9], found[10], found[12], found[13], int(position), int(chunk_end),
  int(object_start), object_log, on_boundary(), found[17]}
