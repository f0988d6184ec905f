#include "tests/served_programs/tls_front.h"

#include <array>
#include <mutex>
#include <utility>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <fmt/format.h>

#include "tests/formats/storage/remote/accepting_thread.h"

namespace millrace::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

}  // namespace

class TlsFront::Front {
 public:
  Front(const Certificate& certificate, uint16_t port_of_server)
      : server_(asio::ip::address_v4::loopback(), port_of_server) {
    const auto buffer = [](const std::string& text) { return asio::buffer(text.data(), text.size()); };
    tls_.use_certificate_chain(buffer(certificate.certificate));
    tls_.use_private_key(buffer(certificate.private_key), asio::ssl::context::pem);
    thread_.start([this](tcp::socket socket) { serve(std::move(socket)); });
  }

  uint16_t port() const { return thread_.port(); }
  std::string asked_for() const {
    const std::lock_guard lock(mutex_);
    return asked_for_;
  }

 private:
  class Connection;

  void serve(tcp::socket socket);
  void note(std::string host) {
    const std::lock_guard lock(mutex_);
    asked_for_ = std::move(host);
  }

  const tcp::endpoint server_;
  asio::ssl::context tls_{asio::ssl::context::tls_server};
  mutable std::mutex mutex_;
  std::string asked_for_;
  AcceptingThread thread_;
};

// A client, and the connection to the server that is its own.
class TlsFront::Front::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Front& front, tcp::socket socket)
      : front_(front), client_(std::move(socket), front.tls_), server_(client_.get_executor()) {}

  void read_connect() {
    asio::async_read_until(client_.next_layer(), asio::dynamic_buffer(head_), "\r\n\r\n",
                           [self = shared_from_this()](const error_code& error, size_t) {
                             if (!error) self->answer_connect();
                           });
  }

 private:
  void answer_connect() {
    const size_t begin = head_.find(' ') + 1;
    front_.note(head_.substr(begin, head_.find(' ', begin) - begin));
    head_ = "HTTP/1.1 200 OK\r\n\r\n";
    asio::async_write(client_.next_layer(), asio::buffer(head_),
                      [self = shared_from_this()](const error_code& error, size_t) {
                        if (!error) self->shake_hands();
                      });
  }
  void shake_hands() {
    client_.async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](const error_code& error) {
      if (!error) self->connect();
    });
  }
  void connect() {
    server_.async_connect(front_.server_, [self = shared_from_this()](const error_code& error) {
      if (error) return self->close();
      self->pass(self->client_, self->server_, self->from_client_);
      self->pass(self->server_, self->client_, self->from_server_);
    });
  }

  // What comes from one goes to the other, until either ends.
  template <typename From, typename To>
  void pass(From& from, To& to, std::array<char, 16384>& bytes) {
    from.async_read_some(asio::buffer(bytes),
                         [self = shared_from_this(), &from, &to, &bytes](const error_code& error, size_t count) {
                           if (error) return self->close();
                           asio::async_write(to, asio::buffer(bytes.data(), count),
                                             [self, &from, &to, &bytes](const error_code& failed, size_t) {
                                               if (failed) return self->close();
                                               self->pass(from, to, bytes);
                                             });
                         });
  }
  void close() {
    error_code ignored;
    client_.next_layer().close(ignored);
    server_.close(ignored);
  }

  Front& front_;
  asio::ssl::stream<tcp::socket> client_;
  tcp::socket server_;
  std::string head_;
  std::array<char, 16384> from_client_{};
  std::array<char, 16384> from_server_{};
};

void TlsFront::Front::serve(tcp::socket socket) {
  std::make_shared<Connection>(*this, std::move(socket))->read_connect();
}

TlsFront::TlsFront(const Certificate& certificate, uint16_t port_of_server)
    : front_(std::make_unique<Front>(certificate, port_of_server)) {}
TlsFront::~TlsFront() = default;
std::string TlsFront::proxy() const { return fmt::format("http://127.0.0.1:{}", front_->port()); }
std::string TlsFront::asked_for() const { return front_->asked_for(); }

}  // namespace millrace::test
