#include "benchmarks/bench_shards.h"

#include <map>

#include "millrace/command_line/listed_shards.h"

namespace millrace {

const Shards& bench_shards(const std::string& pattern) {
  static std::map<std::string, Shards> known;
  const auto found = known.find(pattern);
  return found != known.end() ? found->second : known.emplace(pattern, listed_shards(pattern)).first->second;
}

}  // namespace millrace
