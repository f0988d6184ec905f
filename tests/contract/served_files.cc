#include "tests/contract/served_files.h"

#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/storage/remote/http_engine.h"
#include "tests/formats/storage/remote/idle_http_clock.h"

namespace millrace::test {
namespace {

RemoteOptions options() {
  HttpEngineOptions engine;
  engine.clock = std::make_shared<IdleHttpClock>();
  return {.advice = {.bytes = 4000, .in_flight = 3}, .engine = std::make_shared<HttpEngine>(std::move(engine))};
}

}  // namespace

class ServedFiles::Puts {
 public:
  // Calls `put` the first time that there is such a path; others wait for it.
  template <typename Put>
  void once(const std::string& path, const Put& put) {
    const std::lock_guard lock(mutex_);
    if (paths_.insert(path).second) put();
  }

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
};

ServedFiles::ServedFiles(Fault fault)
    : server_({.fault = std::move(fault)}), remote_(options()), puts_(std::make_unique<Puts>()) {}
ServedFiles::~ServedFiles() = default;

void ServedFiles::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return local_.open(path, std::move(sink));
  const std::string name = path.substr(path.find_first_not_of('/'));
  puts_->once(path, [&] { server_.put(name, std::string(std::istreambuf_iterator<char>(file), {})); });
  remote_.open(server_.url(name), std::move(sink));
}

ServedFiles::Fault drawn_faults(uint64_t seed) {
  struct Asked {
    std::mutex mutex;
    std::map<std::string, int> ranges;
  };
  return [seed, asked = std::make_shared<Asked>()](const ServedRequest& request) -> ServedFault {
    using Kind = ServedFault::Kind;
    static constexpr std::array kKinds{Kind::kStatus,      Kind::kResetBeforeHead, Kind::kResetInHead,
                                       Kind::kResetInBody, Kind::kCloseInBody,     Kind::kStallBeforeHead,
                                       Kind::kStallInBody, Kind::kChunked,         Kind::kGarbage};
    static constexpr std::array kStatuses{408, 429, 499, 500, 502, 503, 504};
    const CounterRng rng(seed, operator_id("faults"));
    const auto draw = [&](uint64_t number, uint64_t below) {
      return static_cast<size_t>(uniform_below(rng.bits(request.number, number), below));
    };
    if (draw(0, 5) != 0) return {};
    const auto range = request.headers.find("range");
    const std::lock_guard lock(asked->mutex);
    const std::string bytes = range == request.headers.end() ? "" : range->second;
    if (++asked->ranges[request.path + " " + bytes] > 3) return {};
    return {.kind = kKinds[draw(1, kKinds.size())],
            .status = kStatuses[draw(2, kStatuses.size())],
            .text = "<html>a proxy's page</html>"};
  };
}

}  // namespace millrace::test
