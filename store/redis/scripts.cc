// SPDX-License-Identifier: Apache-2.0
// The Lua scripts. Redis runs each as one step.
#include "store/redis/commands.h"

namespace c10dd::store {

// A head without `rev` is new, unless the job has rows or was claimed before. An owner whose
// process has no row in the fleet has left it.
const std::string_view kRedisClaimScript = R"lua(
local head, rows, directory = KEYS[1], KEYS[2], KEYS[3]
local function differs(key, value)
  return key ~= '' and redis.call('HGET', directory, key) ~= value
end
if differs(ARGV[3], ARGV[4]) then return {'precondition'} end
if differs(ARGV[5], ARGV[6]) then return {'gone'} end
if redis.call('HEXISTS', head, 'rev') == 0 and
    (redis.call('HLEN', rows) > 0 or redis.call('SISMEMBER', KEYS[5], ARGV[1]) == 1) then
  return {'head'}
end
local owner = redis.call('HGET', head, 'owner') or ''
local process = string.match(owner, ':(%x+)$')
if process and process ~= ARGV[2] then
  local row = redis.call('HGET', KEYS[4], process)
  local beats = row and string.match(row, '^%d+')
  if beats and not (owner == ARGV[7] and beats == ARGV[8]) then
    return {'held', owner, beats}
  end
end
redis.call('SADD', KEYS[5], ARGV[1])
redis.call('HINCRBY', head, 'epoch', 1)
redis.call('HSETNX', head, 'rev', '0')
redis.call('HSETNX', head, 'rows', redis.call('HLEN', rows))
local held = redis.call('HMGET', head, 'epoch', 'rev', 'starts')
local words = {}
for word in string.gmatch((held[3] or '') .. ' ' .. held[1] .. ' ' .. held[2], '%S+') do
  words[#words + 1] = word
end
local starts = table.concat(words, ' ', math.max(1, #words - 2 * tonumber(ARGV[9]) + 1))
redis.call('HSET', head, 'from', held[2], 'owner', held[1] .. ':' .. ARGV[2], 'starts', starts)
return {held[1], held[2], starts})lua";

const std::string_view kRedisDirectoryScript = R"lua(
local head, rows = KEYS[1], KEYS[2]
if redis.call('HEXISTS', head, 'rev') == 0 and redis.call('HLEN', rows) > 0 then return 'head' end
redis.call('HSETNX', head, 'rev', '0')
redis.call('HSETNX', head, 'rows', redis.call('HLEN', rows))
if redis.call('HGET', head, 'owner') ~= '-' then redis.call('HSET', head, 'owner', '-') end
redis.call('SADD', KEYS[3], '0')
return redis.call('HGET', head, 'rev'))lua";

const std::string_view kRedisReleaseScript = R"lua(
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[1], 'epoch', 1)
redis.call('HSET', KEYS[1], 'owner', '')
return 1)lua";

// The name of the new owner has the epoch of the old one, until it claims the job.
const std::string_view kRedisHandOverScript = R"lua(
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'owner', string.match(ARGV[1], '^%d+') .. ':' .. ARGV[2])
return 1)lua";

const std::string_view kRedisForgetScript = R"lua(
if redis.call('HGET', KEYS[3], ARGV[2]) ~= ARGV[3] then return 0 end
redis.call('UNLINK', KEYS[1], KEYS[2])
redis.call('SREM', KEYS[4], ARGV[1])
return 1)lua";

const std::string_view kRedisBeatScript = R"lua(
if ARGV[2] ~= '' then
  local row = redis.call('HGET', KEYS[1], ARGV[1])
  if not row and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return {'full'} end
  local beats = row and tonumber(string.match(row, '^%d+')) or 0
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', beats + 1) .. ARGV[2])
  redis.call('HINCRBY', KEYS[4], 'count', 1)
end
local heartbeat_count = redis.call('HMGET', KEYS[4], 'count', 'rolled_back', 'accepted')
return {redis.call('HGET', KEYS[3], 'i') or '', redis.call('HGET', KEYS[2], 'rev') or '0',
        redis.call('HGETALL', KEYS[1]), heartbeat_count[1] or '0', heartbeat_count[2] or '', heartbeat_count[3] or ''})lua";

const std::string_view kRedisLeaveScript = R"lua(
local row = redis.call('HGET', KEYS[1], ARGV[1])
if row and string.match(row, '^%d+') == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1)lua";

const std::string_view kRedisAcceptScript = R"lua(
redis.call('HSET', KEYS[1], 'accepted', ARGV[1])
redis.call('HDEL', KEYS[1], 'rolled_back')
return 1)lua";

const std::string_view kRedisProbeScript = R"lua(
local commands = {
  {'DEL'}, {'HSET', 'a', '1'}, {'HSETNX', 'b', '1'}, {'HINCRBY', 'a', '1'}, {'HGET', 'a'},
  {'HMGET', 'a', 'b'}, {'HGETALL'}, {'HEXISTS', 'a'}, {'HLEN'}, {'HSCAN', '0'}, {'HDEL', 'a'},
  {'UNLINK'}, {'SADD', 'a'}, {'SISMEMBER', 'a'}, {'SMEMBERS'}, {'SREM', 'a'}}
for _, command in ipairs(commands) do
  local reply = redis.pcall(command[1], KEYS[1], unpack(command, 2))
  if type(reply) == 'table' and reply.err then return {command[1], reply.err} end
end
return {})lua";

// Applies the rule of HeadCheck (job_head.h). Beside that, finds that the head is missing, or
// behind a batch of its owner. If rows are missing, fences all batches: the job must
// be loaded again, which names the damage, and the other jobs go on. ARGV has the number of
// batches, and for each batch: owner, from, to, the number of arguments for its rows, and these
// arguments. Further keys are heads of jobs, and the last arguments the owners that they must have:
// then there is one batch, and it is fenced if another daemon owns one of them. For job 0, the
// third key has its changes, and the arguments of each batch end with its rows, encoded as one
// change; the last two before the owners are the process, and 1 if it asks for a turn (see
// JobBatch::turn). A change that cannot be kept is a gap, and no failure of the commit. Redis does
// not undo the writes of a script that fails, so everything that can fail (a key of the wrong type,
// out of memory) must fail before the first write. ARGV[2] is 1 if rows are erased: then the
// commands that write nothing else are tried first, because the rights of the user may have been
// changed.
const std::string_view kRedisCommitScript = R"lua(
local head, rows = KEYS[1], KEYS[2]
local owned = ARGV[3] ~= '-'
local changes = KEYS[3]
local plain = owned and 2 or 3
local guards = #KEYS - plain
for i = 1, guards do
  if redis.call('HGET', KEYS[plain + i], 'owner') ~= ARGV[#ARGV - guards + i] then return 'f' end
end
local held = redis.call('HMGET', head, 'owner', 'rev', 'from', 'rows')
local owner, rev, repeat_from = held[1], held[2], held[3]
local erased = held[4] and tonumber(held[4]) ~= redis.call('HLEN', rows)

local function not_above(a, b) return #a < #b or (#a == #b and a <= b) end

local function chunks(command, list, at, last)
  while at <= last do
    local to = math.min(at + 1999, last)
    redis.call(command, rows, unpack(list, at, to))
    at = to + 1
  end
end

local function now()
  local time = redis.pcall('TIME')
  return time[1] and time[1] * 1000 + math.floor(time[2] / 1000) or 0
end

-- The daemon that has the turn, or nil.
local function turn()
  local held = redis.pcall('HGET', changes, 'turn')
  if type(held) ~= 'string' then return nil end
  local process, ends = string.match(held, '^(%x+) (%d+)$')
  if not process then return nil end
  local left = ends - now()
  return left > 0 and left <= 1000 and process or nil
end

local function erase_prefix(prefix)
  if prefix == '' then return redis.call('DEL', rows) end
  local pattern = string.gsub(prefix, '[%*%?%[%]%\\]', '\\%0') .. '*'
  local cursor = '0'
  repeat
    local page = redis.call('HSCAN', rows, cursor, 'MATCH', pattern, 'COUNT', 1000)
    cursor = page[1]
    local keys = {}
    for i = 1, #page[2], 2 do keys[#keys + 1] = page[2][i] end
    chunks('HDEL', keys, 1, #keys)
  until cursor == '0'
end

local function apply(at, last)
  while at <= last do
    local kind, count = ARGV[at], tonumber(ARGV[at + 1])
    local begin = at + 2
    at = begin + (kind == 'p' and 2 * count or count)
    if kind == 'p' then
      chunks('HSET', ARGV, begin, at - 1)
    elseif kind == 'e' then
      chunks('HDEL', ARGV, begin, at - 1)
    else
      for i = begin, at - 1 do erase_prefix(ARGV[i]) end
    end
  end
end

local function keep_change(from, to, change)
  local held = redis.pcall('HMGET', changes, 'first', 'last', 'count', 'bytes')
  local first, count, bytes = held[1], tonumber(held[3] or ''), tonumber(held[4] or '')
  if held[2] ~= from or not first or not count or not bytes then
    redis.pcall('DEL', changes)
    first, count, bytes = from, 0, 0
  end
  local value = to .. ' ' .. change
  redis.pcall('HSET', changes, from, value)
  count, bytes = count + 1, bytes + #value
  while count > 4096 or bytes > 4194304 do
    local oldest = redis.pcall('HGET', changes, first)
    if type(oldest) ~= 'string' then
      redis.pcall('DEL', changes)
      first, count, bytes = to, 0, 0
    else
      redis.pcall('HDEL', changes, first)
      first, count, bytes = string.match(oldest, '^%d+') or to, count - 1, bytes - #oldest
    end
  end
  redis.pcall('HSET', changes, 'first', first, 'last', to, 'count', count, 'bytes', bytes)
end

if ARGV[2] == '1' and rev then
  redis.call('HDEL', head, '')
  redis.call('HSET', head, 'rev', rev)
end
local process, wish = ARGV[#ARGV - guards - 1], ARGV[#ARGV - guards] == '1'
local verdicts, first, applied, at = {}, nil, false, 3
for b = 1, tonumber(ARGV[1]) do
  local from, to = ARGV[at + 1], ARGV[at + 2]
  local last = at + 3 + tonumber(ARGV[at + 3])
  verdicts[b] = 'f'
  if not rev then
    verdicts[b] = 'a'
  elseif ARGV[at] == owner and not erased then
    if owner ~= '-' and rev ~= from and not_above(rev, from) then
      verdicts[b] = 'l'
    elseif not owned and (turn() or process) ~= process then
      verdicts[b] = 'f'
    elseif from == rev then
      verdicts[b] = 'd'
      if from ~= to then
        apply(at + 4, last)
        if not owned then
          redis.pcall('HDEL', changes, 'turn')
          keep_change(from, to, ARGV[last + 1])
        end
        rev, applied = to, true
      end
    elseif owner ~= '-' and not_above(repeat_from, from) and not_above(to, rev) then
      verdicts[b] = 'd'
    end
    if verdicts[b] == 'f' and wish and not owned and not turn() then
      redis.pcall('HSET', changes, 'turn', process .. string.format(' %.0f', now() + 1000))
    end
    if verdicts[b] == 'd' then first = first or from end
    if applied then repeat_from = first end
  end
  at = last + (owned and 1 or 2)
end
if applied then
  redis.call('HSET', head, 'rev', rev, 'from', repeat_from, 'rows', redis.call('HLEN', rows))
end
return table.concat(verdicts))lua";

static_assert(kChangesKept == 4096 && kChangeBytesKept == 4194304, "the script has these numbers");

const std::string_view kRedisChangesScript = R"lua(
local rev = redis.call('HGET', KEYS[1], 'rev')
local reply, at = {rev, tostring(redis.call('HLEN', KEYS[3]))}, ARGV[1]
while at ~= rev do
  local change = redis.pcall('HGET', KEYS[2], at)
  local space = type(change) == 'string' and string.find(change, ' ', 1, true)
  if not space or #reply > 4100 then return {} end
  reply[#reply + 1] = string.sub(change, space + 1)
  at = string.sub(change, 1, space - 1)
end
return reply)lua";

}  // namespace c10dd::store
