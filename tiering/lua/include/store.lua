-- What an append notes besides its bytes.

local function next_line(position, grid)
  return position - position % grid + grid
end

-- A chunk ends at the first message boundary at or after a grid line.
-- Returns the start of the chunk that is open afterwards, and the first cut made (or -1).
local function store_cuts(cuts, chunk, grid, tail, data, lengths)
  local line, first = next_line(chunk, grid), -1
  local position, message = tail, 1
  while tail + #data >= line and position < tail + #data do
    if lengths == '' then
      position = tail + #data
    else
      position = position + struct.unpack('<I4', lengths, message)
      message = message + 4
    end
    if position >= line then
      redis.call('ZADD', cuts, int(position), int(position))
      if first < 0 then first = position end
      chunk, line = position, next_line(position, grid)
    end
  end
  return chunk, first
end

-- The id of a record is the position where its append ended; a close without data ends where
-- the append before it did.
local function store_record(records, tail, data, lengths, now, producer, seq, closes)
  local id = int(tail + #data) .. (#data > 0 and '-0' or '-1')
  if lengths == '' and producer == '' and seq == '' and not closes then
    redis.call('XADD', records, id, 't', int(now))
  else
    redis.call('XADD', records, id, 't', int(now), 'm', lengths, 'p', producer, 's', seq,
      'c', closes and '1' or '')
  end
end
