-- Removes a stream and tells its followers. keys: meta, records, cuts, producers, blocks, live.
local function wipe(keys)
  local found = redis.call('HMGET', keys.meta, 'log', 'sealed', 'tail')
  local log, tail = found[1], tonumber(found[3])
  local block = tonumber(found[2])
  block = block - block % BLOCK
  while block <= tail do
    redis.call('UNLINK', keys.blocks .. log .. ':' .. int(block))
    block = block + BLOCK
  end
  redis.call('UNLINK', keys.meta, keys.records, keys.cuts, keys.producers)
  redis.call('PUBLISH', keys.live, log .. ' ' .. found[3] .. ' ' .. found[3] .. ' deleted -1\n')
end
