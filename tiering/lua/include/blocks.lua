-- The bytes of a tail: blocks that begin at multiples of BLOCK, but for the first one, which
-- begins at `base`. A block's key names its log and where it begins.

local function block_start(base, position)
  return math.max(base, position - position % BLOCK)
end

local function next_block(start)
  return start - start % BLOCK + BLOCK
end

local function block_key(blocks, log, start)
  return blocks .. log .. ':' .. int(start)
end

local function store_bytes(blocks, log, base, tail, data)
  local stored = 0
  while stored < #data do
    local at = tail + stored
    local room = next_block(at) - at
    local piece = data
    if stored > 0 or #data > room then
      piece = string.sub(data, stored + 1, stored + room)
    end
    redis.call('APPEND', block_key(blocks, log, block_start(base, at)), piece)
    stored = stored + #piece
  end
end

-- Drops the blocks that begin at or after that of `from` and end at or before `to`.
local function drop_blocks(blocks, log, base, from, to)
  local start = block_start(base, from)
  while next_block(start) <= to do
    redis.call('UNLINK', block_key(blocks, log, start))
    start = next_block(start)
  end
end
