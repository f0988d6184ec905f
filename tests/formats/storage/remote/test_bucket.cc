#include "tests/formats/storage/remote/test_bucket.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/remote/object_url.h"
#include "tests/formats/storage/remote/google_server.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_client.h"
#include "tests/formats/storage/remote/s3_service.h"
#include "tests/support/process_variables.h"

namespace millrace::test {
namespace {

std::string next_name() {
  static std::atomic<int> count = 0;
  return fmt::format("bucket-{}", ++count);
}

}  // namespace

class TestBucket::Server {
 public:
  virtual ~Server() = default;
  virtual std::string scheme() const = 0;
  virtual void put(const std::string& key, const std::string& content) = 0;
  virtual void remove(const std::string& key) = 0;
  virtual std::optional<std::string> content(const std::string& key) const = 0;
  virtual std::vector<std::string> keys() const = 0;
  virtual std::vector<BucketRequest> requests() const = 0;
  const std::string& name() const { return name_; }

 protected:
  const std::string name_ = next_name();
};

class TestBucket::S3 final : public Server {
 public:
  S3(Picks is_refused, Picks is_held, bool has_conditions)
      : server_({.fault =
                     [this, is_refused = std::move(is_refused),
                      is_held = std::move(is_held)](const ServedRequest& request) {
                       const BucketRequest asked = seen(request);
                       if (is_held && is_held(asked)) return ServedFault{.kind = ServedFault::Kind::kStallUpload};
                       return is_refused && is_refused(asked) ? s3_fault(403, "AccessDenied") : ServedFault();
                     },
                 .s3 = service(has_conditions)}),
        variables_(aws_variables(server_)) {
    put(".there", "");  // else there is no bucket
  }
  std::string scheme() const override { return "s3"; }
  void put(const std::string& key, const std::string& content) override { server_.put(name_ + '/' + key, content); }
  void remove(const std::string& key) override { server_.remove(name_ + '/' + key); }
  std::optional<std::string> content(const std::string& key) const override {
    return server_.content(name_ + '/' + key);
  }
  std::vector<std::string> keys() const override {
    std::vector<std::string> keys;
    for (const std::string& name : server_.names()) keys.push_back(name.substr(name_.size() + 1));
    return keys;
  }
  std::vector<BucketRequest> requests() const override {
    std::vector<BucketRequest> all;
    for (const ServedRequest& request : server_.requests()) all.push_back(seen(request));
    return all;
  }

 private:
  static S3ServiceOptions service(bool has_conditions) {
    S3ServiceOptions options = marked_service();
    if (!has_conditions) options.not_implemented = {{"if-none-match", 501}, {"if-match", 501}};
    return options;
  }
  BucketRequest seen(const ServedRequest& request) const {
    const std::string path = s3_path(request);
    return {.method = request.method, .key = path.substr(std::min(path.size(), name_.size() + 2))};
  }

  ObjectServer server_;
  const ProcessVariables variables_;
};

class TestBucket::Google final : public Server {
 public:
  Google(Picks is_refused, Picks is_held)
      : server_({.fault =
                     [is_refused = std::move(is_refused), is_held = std::move(is_held)](const GoogleRequest& request) {
                       GoogleFault fault;
                       const BucketRequest asked = seen(request);
                       if (is_held && is_held(asked)) fault.kind = GoogleFault::Kind::kHang;
                       if (fault.kind != GoogleFault::Kind::kNone || !is_refused || !is_refused(asked)) return fault;
                       fault.kind = GoogleFault::Kind::kAnswer;
                       fault.status = 403;
                       return fault;
                     },
                 .is_public = true}),
        variables_({{"STORAGE_EMULATOR_HOST", server_.host()}}) {
    put(".there", "");
  }
  std::string scheme() const override { return "gs"; }
  void put(const std::string& key, const std::string& content) override { server_.put(name_, key, content); }
  void remove(const std::string& key) override { server_.remove(name_, key); }
  std::optional<std::string> content(const std::string& key) const override { return server_.content(name_, key); }
  std::vector<std::string> keys() const override { return server_.keys(name_); }
  std::vector<BucketRequest> requests() const override {
    std::vector<BucketRequest> all;
    for (const GoogleRequest& request : server_.requests()) all.push_back(seen(request));
    return all;
  }

 private:
  static BucketRequest seen(const GoogleRequest& request) {
    const std::string path = request.target.substr(0, request.target.find('?'));
    const size_t name = request.target.find("&name=");
    if (name != std::string::npos) {
      const size_t begin = name + 6;
      return {.method = "PUT",
              .key = percent_decoded(request.target.substr(begin, request.target.find('&', begin) - begin))};
    }
    const size_t object = path.find("/o/");
    return {.method = request.method,
            .key = object == std::string::npos ? "" : percent_decoded(path.substr(object + 3))};
  }

  GoogleServer server_;
  const ProcessVariables variables_;
};

TestBucket::TestBucket(Store store, Picks is_refused, Picks is_held) {
  if (store == Store::kGoogle) {
    server_ = std::make_unique<Google>(std::move(is_refused), std::move(is_held));
  } else {
    server_ = std::make_unique<S3>(std::move(is_refused), std::move(is_held), store == Store::kS3);
  }
}
TestBucket::~TestBucket() = default;

std::string TestBucket::url(const std::string& key) const {
  return fmt::format("{}://{}/{}", server_->scheme(), server_->name(), key);
}
void TestBucket::put(const std::string& key, const std::string& content) { server_->put(key, content); }
void TestBucket::remove(const std::string& key) { server_->remove(key); }
std::optional<std::string> TestBucket::content(const std::string& key) const { return server_->content(key); }
std::vector<std::string> TestBucket::keys(const std::string& prefix) const {
  std::vector<std::string> keys = server_->keys();
  std::erase_if(keys, [&](const std::string& key) { return !key.starts_with(prefix) || key == ".there"; });
  return keys;
}
std::vector<BucketRequest> TestBucket::requests() const { return server_->requests(); }

std::string to_string(TestBucket::Store store) {
  if (store == TestBucket::Store::kGoogle) return "Google";
  return store == TestBucket::Store::kS3 ? "S3" : "S3WithoutConditions";
}

}  // namespace millrace::test
