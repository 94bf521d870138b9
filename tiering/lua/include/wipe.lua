-- Removes a stream and tells its followers. What object storage may hold of it is noted as dead.
-- Returns whether it may hold anything.
-- keys: meta, records, cuts, producers, blocks, live, sealed, folded, dead, loans, shed,
--       horizon.

-- The logs that are the stream's and nobody else's.
local function own_logs(log, chain)
  local logs = {log}
  if chain == '' then return logs end
  for _, ancestor in ipairs(cjson.decode(chain)) do
    if ancestor.kind == 'recovery' and (ancestor.name or '') == '' then
      logs[#logs + 1] = int(ancestor.log)
    end
  end
  return logs
end

local function note_dead(keys, now, log, chain)
  for _, own in ipairs(own_logs(log, chain)) do
    redis.call('ZADD', keys.dead, int(now), own)
  end
end

-- Edges and caches may have something of a stream that is deleted now.
local function note_recalls(recalls, now, log, chain, has_objects)
  local times = has_objects and int(now) or int(now) .. ':' .. int(now)
  for _, own in ipairs(own_logs(log, chain)) do
    redis.call('HSET', recalls, own, times)
  end
end

local function wipe(keys, now)
  local found = redis.call('HMGET', keys.meta, 'log', 'sealed', 'tail', 'base', 'manifest', 'chain',
    'border', 'snapshot')
  local log, tail, chain = found[1], tonumber(found[3]), found[6]
  local has_objects = tonumber(found[2]) > tonumber(found[7]) or found[5] ~= '' or chain ~= ''
    or found[8] ~= '' or redis.call('EXISTS', keys.shed) == 1
  if has_objects then note_dead(keys, now, log, chain) end
  drop_blocks(keys.blocks, log, tonumber(found[4]), tonumber(found[2]), next_block(tail))
  redis.call('UNLINK', keys.meta, keys.records, keys.cuts, keys.producers, keys.sealed,
    keys.folded, keys.loans, keys.shed, keys.horizon)
  redis.call('PUBLISH', keys.live, log .. ' ' .. found[3] .. ' ' .. found[3] .. ' deleted -1\n')
  return has_objects
end

-- Whether somebody reads through the stream: then it can only be hidden.
local function is_lent(keys)
  return redis.call('ZCARD', keys.loans) > 0
end

local function hide(keys)
  local found = redis.call('HMGET', keys.meta, 'log', 'tail')
  redis.call('HSET', keys.meta, 'hidden', '1', 'deadline', '')
  redis.call('PUBLISH', keys.live, found[1] .. ' ' .. found[2] .. ' ' .. found[2] .. ' deleted -1\n')
end
