-- Creates a stream, or finds that it is there already.
-- KEYS: meta, records, cuts, producers, blocks (prefix), live (channel), sealed, folded,
--       dead, loans, shed, horizon
-- ARGV: log, content type, media type, grid, ttl (s or ''), expires (ms or ''), expires text,
--       closed ('1' or ''), data, message lengths, run of Redis,
--       chain (of a fork, or ''), border (0), the stream it is a fork of (''),
--       the border was asked for ('1' or ''), earliest retained position (0),
--       snapshot (of a fork, or '')
-- Returns {"created", log, tail} | {"exists", log, tail, content type}
--       | {"conflict", what differs} | {"hidden"} | {"created_over_expired", log, tail}
local keys = {meta = KEYS[1], records = KEYS[2], cuts = KEYS[3], producers = KEYS[4],
  blocks = KEYS[5], live = KEYS[6], sealed = KEYS[7], folded = KEYS[8], dead = KEYS[9],
  loans = KEYS[10], shed = KEYS[11], horizon = KEYS[12]}
local log, content_type, media, grid = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local ttl, expires, expires_text, closed = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local data, lengths, run = ARGV[9], ARGV[10], ARGV[11]
local chain, border, origin, asked_border = ARGV[12], tonumber(ARGV[13]), ARGV[14], ARGV[15]

local now = now_ms()
local outcome = 'created'
local found = redis.call('HMGET', keys.meta, 'log', 'tail', 'type', 'media', 'ttl', 'expires',
  'closed', 'deadline', 'hidden', 'origin', 'border')
if found[1] then
  if found[9] == '1' then return {'hidden'} end
  if has_expired(found[8], now) and is_lent(keys) then
    hide(keys)
    return {'hidden'}
  end
  if not has_expired(found[8], now) then
    if origin ~= '' and found[10] ~= origin then return {'conflict', 'origin'} end
    if asked_border == '1' and found[11] ~= ARGV[13] then return {'conflict', 'fork offset'} end
    if found[4] ~= media then return {'conflict', 'content type'} end
    if found[5] ~= ttl or found[6] ~= expires then return {'conflict', 'lifetime'} end
    if found[7] ~= closed then return {'conflict', 'closure'} end
    return {'exists', found[1], found[2], found[3]}
  end
  wipe(keys, now)
  outcome = 'created_over_expired'
end

local deadline = expires
if ttl ~= '' then deadline = int(now + tonumber(ttl) * 1000) end
store_bytes(keys.blocks, log, border, border, data)
local chunk = store_cuts(keys.cuts, border, grid, border, #data, lengths)
local tail = int(border + #data)
if #data > 0 or closed == '1' then
  store_record(keys.records, tail, #data, lengths, int(now), '', '', closed == '1')
end
-- What every append asks for comes first: a small hash is searched from its beginning.
redis.call('HSET', keys.meta, 'log', log, 'tail', tail, 'closed', closed, 'media', media,
  'deadline', deadline, 'chunk', int(chunk), 'grid', int(grid), 'base', int(border), 'sealed', int(border),
  'run', run, 'hidden', '', 'written', int(now),
  'type', content_type, 'ttl', ttl, 'seq', '', 'closed_by', '', 'chain', chain, 'created', int(now),
  'expires', expires, 'expires_text', expires_text, 'earliest', ARGV[16], 'snapshot', ARGV[17], 'sealed_seq', '',
  'manifest', '', 'origin', origin, 'border', int(border), 'lent', '0')
return {outcome, log, tail}
