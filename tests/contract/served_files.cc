#include "tests/contract/served_files.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/storage/remote/http_engine.h"
#include "tests/formats/storage/remote/google_server.h"
#include "tests/formats/storage/remote/google_uploads.h"
#include "tests/formats/storage/remote/idle_http_clock.h"
#include "tests/formats/storage/remote/s3_client.h"

namespace millrace::test {
namespace {

using Kind = ServedFault::Kind;
using Store = ServedFiles::Store;

RemoteOptions plain_options() {
  RemoteOptions options;
  options.listed = std::make_shared<ListedObjects>();
  options.environment = [](std::string_view) { return std::nullopt; };
  return options;
}

RemoteOptions with_idle_clock(RemoteOptions options) {
  HttpEngineOptions engine;
  engine.clock = std::make_shared<IdleHttpClock>();
  options.engine = std::make_shared<HttpEngine>(std::move(engine));
  options.advice = {.bytes = 4000, .in_flight = 3};
  options.retries = {};
  return options;
}

// Without the slashes at its beginning.
std::string name_of(const std::string& path) { return path.substr(std::min(path.find_first_not_of('/'), path.size())); }

}  // namespace

class ServedFiles::Server {
 public:
  explicit Server(Options options) : options_(std::move(options)) {}
  virtual ~Server() = default;
  virtual RemoteOptions remote_options() const = 0;
  virtual std::string url(const std::string& name) const = 0;
  virtual void put(const std::string& name, std::string content) = 0;

 protected:
  virtual void renew() = 0;
  // On the thread of the server.
  ServedFault fault_of(const ServedRequest& request) {
    if (request.number == options_.changed_at) renew();
    return options_.fault ? options_.fault(request) : ServedFault();
  }
  const Options options_;
};

// Of HTTP and S3.
class ServedFiles::Objects final : public Server {
 public:
  using Server::Server;
  RemoteOptions remote_options() const override { return is_s3() ? s3_options(server_) : plain_options(); }
  std::string url(const std::string& name) const override {
    return is_s3() ? "s3://" + key(name) : server_.url(key(name));
  }
  void put(const std::string& name, std::string content) override { server_.put(key(name), std::move(content)); }

 private:
  bool is_s3() const { return options_.store == Store::kS3; }
  std::string key(const std::string& name) const { return is_s3() ? "bucket/" + name : name; }
  void renew() override {
    for (const std::string& name : server_.names()) server_.put(name, server_.content(name).value_or(""));
  }

  ObjectServer server_{{.fault = [this](const ServedRequest& request) { return fault_of(request); },
                        .s3 = is_s3() ? std::optional(marked_service()) : std::nullopt}};
};

class ServedFiles::Google final : public Server {
 public:
  using Server::Server;
  RemoteOptions remote_options() const override {
    RemoteOptions options = plain_options();
    options.gcs.endpoint = server_.endpoint();
    options.gcs.credentials.anonymous = true;
    return options;
  }
  std::string url(const std::string& name) const override { return "gs://bucket/" + name; }
  void put(const std::string& name, std::string content) override { server_.put("bucket", name, std::move(content)); }

 private:
  void renew() override {
    for (const std::string& key : server_.keys("bucket")) put(key, server_.content("bucket", key).value_or(""));
  }
  GoogleFault google_fault(const GoogleRequest& request) {
    const ServedFault fault = fault_of({.method = request.method,
                                        .path = request.target,
                                        .headers = request.headers,
                                        .body = "",
                                        .number = request.number});
    GoogleFault google{.status = fault.status, .headers = fault.headers, .body = fault.text};
    switch (fault.kind) {
      case Kind::kStatus:
        google.kind = GoogleFault::Kind::kAnswer;
        // Of the store itself; the others are of a proxy before it.
        if (fault.status == 429) google.body = google_api_error(429, "rateLimitExceeded", "Too many requests.").body;
        if (fault.status == 503) google.body = google_api_error(503, "backendError", "We are sorry.").body;
        break;
      case Kind::kStallBeforeHead: google.kind = GoogleFault::Kind::kHang; break;
      case Kind::kStallInBody: google.kind = GoogleFault::Kind::kHangInBody; break;
      case Kind::kResetInBody: google.kind = GoogleFault::Kind::kResetInBody; break;
      case Kind::kCloseInBody: google.kind = GoogleFault::Kind::kCloseInBody; break;
      case Kind::kChunked: google.kind = GoogleFault::Kind::kChunked; break;
      case Kind::kPartAsWhole: google.kind = GoogleFault::Kind::kPartAsWhole; break;
      case Kind::kSilentClose: google.kind = GoogleFault::Kind::kSilentClose; break;
      case Kind::kResetBeforeHead:
      case Kind::kResetInHead:
      case Kind::kGarbage: google.kind = GoogleFault::Kind::kReset; break;
      default: break;  // nothing goes wrong
    }
    return google;
  }

  GoogleServer server_{
      {.fault = [this](const GoogleRequest& request) { return google_fault(request); }, .is_public = true}};
};

ServedFiles::ServedFiles(Options options)
    : store_(options.store),
      server_(store_ == Store::kGoogle ? std::unique_ptr<Server>(std::make_unique<Google>(std::move(options)))
                                       : std::make_unique<Objects>(std::move(options))),
      remote_(with_idle_clock(server_->remote_options())) {}
ServedFiles::~ServedFiles() = default;

std::string ServedFiles::url(const std::string& path) const { return server_->url(name_of(path)); }

void ServedFiles::put(const std::string& path) {
  const std::lock_guard lock(mutex_);  // others wait until it is there
  if (paths_.contains(path)) return;
  std::ifstream file(path, std::ios::binary);
  if (!file) return;
  server_->put(name_of(path), std::string(std::istreambuf_iterator<char>(file), {}));
  paths_.insert(path);
}

void ServedFiles::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  if (!std::ifstream(path)) return local_.open(path, std::move(sink));
  put(path);
  remote_.open(url(path), std::move(sink));
}

std::vector<std::string> ServedFiles::glob(const std::string& pattern) {
  const std::vector<std::string> local = glob_local(pattern);
  if (store_ == Store::kHttp || local.empty()) return local;
  for (const std::string& path : local) put(path);
  std::vector<std::string> paths = remote_.glob(url(pattern));
  for (std::string& found : paths) found.erase(0, url("/").size() - 1);
  return paths;
}

std::string to_string(Store store) { return store == Store::kHttp ? "HTTP" : store == Store::kS3 ? "S3" : "Google"; }

ServedFiles::Fault drawn_faults(uint64_t seed, Store store) {
  struct Asked {
    std::mutex mutex;
    std::map<std::string, int> ranges;
  };
  return [seed, store, asked = std::make_shared<Asked>()](const ServedRequest& request) -> ServedFault {
    static constexpr std::array kKinds{
        Kind::kStatus,          Kind::kResetBeforeHead, Kind::kResetInHead,   Kind::kResetInBody,  Kind::kCloseInBody,
        Kind::kStallBeforeHead, Kind::kStallInBody,     Kind::kChunked,       Kind::kGarbage,      Kind::kPartAsWhole,
        Kind::kConnectionClose, Kind::kSilentClose,     Kind::kMarkedEncoded, Kind::kMarkedChunked};
    static constexpr std::array kStatuses{408, 429, 499, 500, 502, 503, 504};
    const CounterRng rng(seed, operator_id("faults"));
    const auto draw = [&](uint64_t number, uint64_t below) {
      return static_cast<size_t>(uniform_below(rng.bits(request.number, number), below));
    };
    if (draw(0, 5) != 0) return {};
    const std::string kMoved = "?moved=1";
    const auto range = request.headers.find("range");
    const std::string bytes = range == request.headers.end() ? "" : range->second;
    {
      const std::lock_guard lock(asked->mutex);
      if (++asked->ranges[request.path.substr(0, request.path.find(kMoved)) + " " + bytes] > 3) return {};
    }
    // Once for each read; Google's store has none.
    const bool may_move = store != Store::kGoogle && request.path.find('?') == std::string::npos;
    const size_t kind = draw(1, kKinds.size() + (may_move ? 1 : 0));
    if (kind == kKinds.size()) {
      return {.kind = Kind::kStatus, .status = 307, .headers = {{"Location", request.path + kMoved}}};
    }
    ServedFault fault{
        .kind = kKinds[kind], .status = kStatuses[draw(2, kStatuses.size())], .text = "<html>a proxy's page</html>"};
    if (draw(3, 4) == 0) fault.headers["Retry-After"] = "7";
    return fault;
  };
}

}  // namespace millrace::test
