-- Numbers above 1e14 lose digits when Lua concatenates them; int() does not.
local function int(n)
  return string.format('%.0f', n)
end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function has_expired(deadline, now)
  return deadline and deadline ~= '' and tonumber(deadline) <= now
end
