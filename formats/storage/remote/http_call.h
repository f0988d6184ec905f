#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <curl/curl.h>

#include "millrace/formats/storage/remote/hedge_policy.h"
#include "millrace/formats/storage/remote/http_message.h"

namespace millrace {

/// One call of libcurl's multi interface, from its start to the answer. All of the engine's thread.
class HttpCall {
 public:
  HttpCall(uint64_t number, HttpRequest request, std::shared_ptr<HttpSink> sink, std::chrono::nanoseconds now);
  ~HttpCall();
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] const HttpRequest& request() const { return request_; }
  [[nodiscard]] CURL* easy() const { return easy_.get(); }  ///< null before `set_up`
  [[nodiscard]] int status() const { return response_.head.status; }
  [[nodiscard]] size_t received() const { return received_; }  ///< bytes of the body

  /// The same once more.
  [[nodiscard]] std::unique_ptr<HttpCall> second(std::chrono::nanoseconds now) const;
  [[nodiscard]] bool is_second() const { return is_second_; }
  /// When a second one is to be sent, unless all comes first; never before it was set up.
  [[nodiscard]] std::chrono::nanoseconds hedged_at(const HedgePolicy& policy) const;

  /// Makes the handle; the deadlines count from now on. `ca_file`: empty: the system's. Throws `kIo` and
  /// `std::bad_alloc`.
  void set_up(const std::string& ca_file, std::chrono::nanoseconds now);
  /// When this call is given up unless something comes first; never before it was set up.
  [[nodiscard]] std::chrono::nanoseconds deadline() const;
  /// Looks at what has come until now.
  void note_time(std::chrono::nanoseconds now);
  [[nodiscard]] bool has_head() const { return head_seen_; }  ///< by `note_time`
  /// Another call for the same has failed, and its bytes are where this one's are: where this one fails with fewer, the
  /// other's answer is told.
  void keep_answer_of(const HttpCall& other);
  void time_out();
  /// No attempt would do better, for this reason.
  void refuse(std::string reason);
  void cancel();
  /// It is over, as libcurl says, with which the handle is no more.
  void conclude(CURLcode code);
  /// Whether it has come to an answer that no second one could better, when it is over.
  [[nodiscard]] bool is_good() const;
  /// Tells the sink what it came to, after which there is nothing more to be done.
  void tell();

 private:
  struct EasyDeleter {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  struct ListDeleter {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  template <typename Value>
  void set(CURLoption option, Value value);
  void set_method();
  void add_header(const std::string& line);
  void fail(HttpFailure failure, std::string reason);
  bool has_sent_more();
  // Not by an interim answer.
  [[nodiscard]] bool is_answered() const { return response_.head.status >= 200; }
  static int begin_sending(void* self, char* ip, char* local_ip, int port, int local_port) noexcept;
  static size_t take_header(char* data, size_t one, size_t size, void* self) noexcept;
  static size_t take_body(char* data, size_t one, size_t size, void* self) noexcept;
  bool header(std::string_view line) noexcept;
  bool body(std::string_view bytes) noexcept;

  const uint64_t number_;
  const HttpRequest request_;
  const std::shared_ptr<HttpSink> sink_;
  std::unique_ptr<CURL, EasyDeleter> easy_;
  std::unique_ptr<curl_slist, ListDeleter> headers_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  HttpResponse response_;
  HttpBodyPlan plan_;
  bool is_second_ = false;
  bool is_sending_ = false;       // it was begun to be sent, of requests that change something
  bool is_sent_in_vain_ = false;  // and its connection broke off
  bool is_planned_ = false;
  bool is_cut_ = false;
  bool head_seen_ = false;
  size_t received_ = 0;
  std::optional<HttpResponse> other_;  // of a second call that has failed, with some bytes
  size_t bytes_at_move_ = 0;
  curl_off_t sent_ = 0;  // bytes of the request's body
  curl_off_t sent_at_move_ = 0;
  const std::chrono::nanoseconds made_at_;
  std::chrono::nanoseconds begun_at_{0};     // or when `least_bytes` more of the body were sent
  std::chrono::nanoseconds answered_at_{0};  // when the head was seen
  std::chrono::nanoseconds moved_at_{0};     // when `least_bytes` more had come
};

}  // namespace millrace
