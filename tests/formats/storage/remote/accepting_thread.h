#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include <boost/asio.hpp>

namespace millrace::test {

/// A port of 127.0.0.1 of its own, and the thread of a server that accepts connections there. When it goes, the thread
/// ends first, then goes what waits for connections: it is the last member of its server.
class AcceptingThread {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  AcceptingThread() = default;
  ~AcceptingThread() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }
  AcceptingThread(const AcceptingThread&) = delete;
  AcceptingThread& operator=(const AcceptingThread&) = delete;

  /// `serve`: is called with each connection, on the thread.
  void start(std::function<void(Socket)> serve) {
    serve_ = std::move(serve);
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }
  [[nodiscard]] uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, Socket socket) {
      if (error) return;
      serve_(std::move(socket));
      accept();
    });
  }

  std::function<void(Socket)> serve_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
  std::thread thread_;
};

}  // namespace millrace::test
