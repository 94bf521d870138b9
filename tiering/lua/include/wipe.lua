-- Removes a stream and tells its followers.
-- keys: meta, records, cuts, producers, blocks, live, sealed, folded.
local function wipe(keys)
  local found = redis.call('HMGET', keys.meta, 'log', 'sealed', 'tail', 'base')
  local log, tail = found[1], tonumber(found[3])
  drop_blocks(keys.blocks, log, tonumber(found[4]), tonumber(found[2]), next_block(tail))
  redis.call('UNLINK', keys.meta, keys.records, keys.cuts, keys.producers, keys.sealed,
    keys.folded)
  redis.call('PUBLISH', keys.live, log .. ' ' .. found[3] .. ' ' .. found[3] .. ' deleted -1\n')
end
