// SPDX-License-Identifier: Apache-2.0
#include "client/stores/redis/script.h"

namespace c10dd::client::redis {

// Redis does not undo the writes of a script that fails. So HLEN and ZCARD fail first if one of the
// two keys has another type. A Lua number is a double: sums stay decimal texts.
const std::string_view kScript = R"lua(
local values, names, op, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local call = redis.call
call('HLEN', values)
call('ZCARD', names)

local function tell(name) call('PUBLISH', channel .. name, '') end

local function put(key, value)
  if call('HSET', values, key, value) == 1 then
    call('ZADD', names, 0, key)
    tell(key)
  end
end

local ops = {}

function ops.set()
  for i = 3, #ARGV, 2 do put(ARGV[i], ARGV[i + 1]) end
  return 1
end

function ops.get()
  local found = {}
  for i = 3, #ARGV do found[i - 2] = call('HGET', values, ARGV[i]) end
  return found
end

function ops.exist()
  local found = {}
  for i = 3, #ARGV do
    local there = call('HEXISTS', values, ARGV[i]) == 1 or call('EXISTS', KEYS[i]) == 1
    found[i - 2] = there and '1' or '0'
  end
  return table.concat(found)
end

function ops.add(key, delta)
  local old = call('HGET', values, key)
  if not old then put(key, '0') end
  local sum = redis.pcall('HINCRBY', values, key, delta)
  if type(sum) == 'table' then return {sum.err, old} end
  return {'sum', call('HGET', values, key)}
end

function ops.append(key, value, limit)
  local whole = (call('HGET', values, key) or '') .. value
  if #whole <= tonumber(limit) then put(key, whole) end
  return #whole
end

function ops.compare_set(key, expected, desired)
  local old = call('HGET', values, key)
  if (old or '') ~= expected then return {0, old} end
  put(key, desired)
  return {1}
end

function ops.remove(key)
  call('ZREM', names, key)
  return call('HDEL', values, key)
end

function ops.remove_prefix(first, last)
  local keys = call('ZRANGEBYLEX', names, first, last)
  for at = 1, #keys, 1000 do
    call('HDEL', values, unpack(keys, at, math.min(at + 999, #keys)))
  end
  return call('ZREMRANGEBYLEX', names, first, last)
end

function ops.push(name, value)
  local length = call('RPUSH', KEYS[3], value)
  if length == 1 then tell(name) end
  return length
end

function ops.pop() return call('LPOP', KEYS[3]) end

return ops[op](unpack(ARGV, 3, math.min(#ARGV, 5))))lua";

}  // namespace c10dd::client::redis
