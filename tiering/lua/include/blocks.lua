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

-- Pieces that were set beside the script in the same transaction.
local function staged_key(blocks, number)
  return blocks .. 'staged:' .. number
end

local function staged_bytes(blocks, count)
  local size = 0
  for number = 1, count do
    size = size + redis.call('STRLEN', staged_key(blocks, number))
  end
  return size
end

-- A piece that is where a block begins becomes that block.
local function store_staged(blocks, log, base, tail, count)
  local at = tail
  for number = 1, count do
    local key = staged_key(blocks, number)
    local size = redis.call('STRLEN', key)
    if at == block_start(base, at) and at + size <= next_block(at) then
      redis.call('RENAME', key, block_key(blocks, log, at))
    else
      store_bytes(blocks, log, base, at, redis.call('GET', key))
    end
    at = at + size
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
