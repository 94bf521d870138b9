-- What an append notes besides its bytes.

local function next_line(position, grid)
  return position - position % grid + grid
end

-- A chunk ends at the first message boundary at or after a grid line.
-- Returns the start of the chunk that is open afterwards, and the first cut made (or -1).
local function store_cuts(cuts, chunk, grid, tail, size, lengths)
  local line, first = next_line(chunk, grid), -1
  local position, message = tail, 1
  while tail + size >= line and position < tail + size do
    if lengths == '' then
      position = tail + size
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
-- the append before it did. `stop` and `time` are texts.
local function store_record(records, stop, size, lengths, time, producer, seq, closes)
  local id = stop .. (size > 0 and '-0' or '-1')
  if lengths == '' and producer == '' and seq == '' and not closes then
    redis.call('XADD', records, id, 't', time)
  else
    redis.call('XADD', records, id, 't', time, 'm', lengths, 'p', producer, 's', seq,
      'c', closes and '1' or '')
  end
end

-- A sliding lifetime begins anew with each append.
local function renew_lifetime(meta, deadline, now, changes)
  if deadline == '' then return end
  local ttl = redis.call('HGET', meta, 'ttl')
  if ttl ~= '' then
    changes[#changes + 1] = 'deadline'
    changes[#changes + 1] = int(now + tonumber(ttl) * 1000)
  end
end

-- `start` and `stop` are texts.
local function tell_followers(live, log, start, stop, state, cut, inline)
  redis.call('PUBLISH', live, log .. ' ' .. start .. ' ' .. stop .. ' ' .. state .. ' '
    .. (cut < 0 and '-1' or int(cut)) .. '\n' .. inline)
end
