#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace millrace::test {

/// A request to a bucket that a test looks at.
struct BucketRequest {
  std::string method;
  std::string key;  ///< of the object; of a listing: empty
};

/// A bucket that the storage of the process (`RemoteStorage::of_process`) reaches as long as this is there: its own
/// server, and the variables of the environment that lead to it. Each has another name: what is read once in a process
/// is of one test alone.
class TestBucket {
 public:
  enum class Store { kS3, kS3WithoutConditions, kGoogle };  // without: they are answered with status 501
  using Picks = std::function<bool(const BucketRequest&)>;
  /// `is_refused`: requests that are answered with status 403; `is_held`: those with a body of which nothing is done,
  /// and that are never answered. Called on the server's thread.
  explicit TestBucket(Store store, Picks is_refused = nullptr, Picks is_held = nullptr);
  ~TestBucket();
  TestBucket(const TestBucket&) = delete;
  TestBucket& operator=(const TestBucket&) = delete;

  [[nodiscard]] std::string url(const std::string& key) const;
  void put(const std::string& key, const std::string& content);
  void remove(const std::string& key);
  [[nodiscard]] std::optional<std::string> content(const std::string& key) const;
  /// Of the objects below a folder, in order.
  [[nodiscard]] std::vector<std::string> keys(const std::string& prefix = "") const;
  /// All so far.
  [[nodiscard]] std::vector<BucketRequest> requests() const;

 private:
  class Server;
  class S3;
  class Google;
  std::unique_ptr<Server> server_;
};

[[nodiscard]] std::string to_string(TestBucket::Store store);

}  // namespace millrace::test
