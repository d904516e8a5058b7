// seekline serve: the HTTP server.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "app/bench_machine.h"
#include "app/commands.h"
#include "app/config_file.h"
#include "core/thread_pool.h"
#include "engine/prefix_cache.h"
#include "persist/stored_rows.h"
#include "serve/server.h"

namespace seekline {
namespace {

constexpr int kInterruptedTwice = 130;

struct ServeOptions {
  ModelOptions model;
  std::string folder, config, api_key_file;
  serve::ServiceOptions service;
  serve::ServerOptions server;
  double keep_alive_seconds = 10, shutdown_seconds = 30, body_seconds = 60;
  std::int64_t kept = 32, snapshot_bytes = 256 << 20;
  PrefixStoreOptions store;
  bool no_probe = false;
};

// Of the memory that is free now; pages beyond are what a limit is for.
std::int64_t default_cache_limit() {
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  std::int64_t kib = 0;
  while (in >> name >> kib) {
    std::getline(in, unit);
    if (name == "MemAvailable:") return kib * 1024 / 2;
  }
  return 4LL << 30;
}

// Memory's read bandwidth with the threads that the model uses, in a fifth of a second.
double measure_read_gb_s(int threads) {
  constexpr std::int64_t kMib = 128;  // a thread, beyond what its share of the caches holds
  MachineProbe probe(threads, kMib * threads);
  double best = 0;
  for (int round = 0; round < 3; ++round) best = std::max(best, probe.read_bytes_s() / 1e9);
  return best;
}

void read_api_keys(ServeOptions& o) {
  if (const char* key = std::getenv("SEEKLINE_API_KEY"); key && *key) o.server.api_keys.emplace_back(key);
  if (o.api_key_file.empty()) return;
  std::ifstream in(o.api_key_file);
  if (!in) throw Error(ErrorCode::kNotFound, o.api_key_file + " cannot be opened");
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') o.server.api_keys.push_back(line);
}

std::chrono::milliseconds millis(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

std::shared_ptr<PrefixCache> open_prefixes(Model& model, const ServeOptions& o) {
  PrefixCacheOptions kept;
  kept.most_timelines = static_cast<std::size_t>(o.kept);
  kept.snapshot_bytes = o.snapshot_bytes;
  std::unique_ptr<RowSource> rows;
  if (!o.store.folder.empty())
    rows = std::make_unique<StoredRows>(PrefixStore::open(model, o.store), model.options().decoder,
                                        model.plan());
  return std::make_shared<PrefixCache>(model.pages(), model.options().decoder, std::move(rows), kept);
}

// SIGINT and SIGTERM come to one thread that waits for them; a second one ends the process at once.
void serve_until_signalled(serve::Server& server) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread waiter([&server, signals] {
    int signal = 0;
    sigwait(&signals, &signal);
    std::thread impatient([signals] {
      int again = 0;
      sigwait(&signals, &again);
      _exit(kInterruptedTwice);
    });
    impatient.detach();
    server.shutdown();
  });
  server.serve();
  waiter.join();
}

void block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

void serve_model(CLI::App& command, ServeOptions& o) {
  if (!o.config.empty()) read_config_options(command, o.config);
  read_api_keys(o);
  if (o.folder.empty()) {
    serve::Log log(stderr);
    o.folder = default_model_folder([&](const std::string& line) {
      log.write(serve::LogLevel::kInfo, "default_model", {{"message", line}});
    });
  }
  if (o.model.cache_limit_bytes == 0) o.model.cache_limit_bytes = default_cache_limit();
  if (o.service.model_name.empty())
    o.service.model_name = std::filesystem::absolute(o.folder).lexically_normal().filename().string();
  o.server.keep_alive = millis(o.keep_alive_seconds);
  o.server.shutdown_grace = millis(o.shutdown_seconds);
  o.server.connection.body = millis(o.body_seconds);
  block_signals();  // before the first thread, so that all inherit it
  const std::shared_ptr<Model> model = Model::open(o.folder, o.model);
  if (!o.no_probe)
    o.server.read_gb_s = measure_read_gb_s(o.model.threads > 0 ? o.model.threads : default_threads());
  serve::Server server(model, open_prefixes(*model, o), o.service, o.server);
  const int port = server.bind();
  server.log().write(serve::LogLevel::kInfo, "listening",
                     {{"address", fmt::format("http://{}:{}/", o.server.host, port)},
                      {"model", o.service.model_name},
                      {"context", model->context()},
                      {"cache_limit_bytes", o.model.cache_limit_bytes},
                      {"api_keys", o.server.api_keys.size()}});
  if (!is_loopback(o.server.host) && o.server.api_keys.empty())
    server.log().write(
        serve::LogLevel::kWarning, "open",
        {{"message", "whoever reaches " + o.server.host + " can use this server; give it --api-key"}});
  serve_until_signalled(server);
}

void add_limits(CLI::App& command, ServeOptions& o) {
  command.add_option("--max-running", o.service.scheduler.max_running, "sequences computed together at most")
      ->capture_default_str();
  command
      .add_option("--max-waiting", o.service.scheduler.max_waiting,
                  "sequences in the queue at most; then 429")
      ->capture_default_str();
  command
      .add_option("--chunk-beside", o.service.scheduler.chunk_beside,
                  "prompt tokens of a step while others decode")
      ->capture_default_str();
  command.add_option("--kept", o.kept, "finished prompts and answers whose rows are kept in memory")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}))
      ->capture_default_str();
  command.add_option("--snapshot-bytes", o.snapshot_bytes, "memory of their window snapshots")
      ->capture_default_str();
  command.add_option("--store", o.store.folder, "folder where computed prefixes are kept across restarts");
  command.add_option("--store-limit", o.store.limit_bytes, "bytes of that folder at most")
      ->capture_default_str();
  command.add_option("--queue-seconds", o.service.queue_seconds, "longest wait for a turn; then 503")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--request-seconds", o.service.request_seconds, "longest time of a request")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--max-connections", o.server.max_connections, "open connections at most; then 503")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command
      .add_option("--max-body", o.server.connection.body_bytes, "bytes of a request's body at most; then 413")
      ->check(CLI::Range(std::int64_t{1024}, std::int64_t{1} << 32))
      ->capture_default_str();
  command.add_option("--body-seconds", o.body_seconds, "longest time for a body to arrive")
      ->check(CLI::Range(0.1, 1e5))
      ->capture_default_str();
  command
      .add_option("--keep-alive-seconds", o.keep_alive_seconds,
                  "silence after which a waiting client hears something")
      ->check(CLI::Range(0.1, 15.0))
      ->capture_default_str();
  command
      .add_option("--shutdown-seconds", o.shutdown_seconds,
                  "after SIGTERM, what runs may take this long to finish")
      ->check(CLI::Range(0.0, 1e5))
      ->capture_default_str();
}

}  // namespace

void add_serve_command(CLI::App& app) {
  const auto o = std::make_shared<ServeOptions>();
  CLI::App* command =
      app.add_subcommand("serve", "serve the model over HTTP: OpenAI's and Anthropic's APIs, and a page");
  command->add_option("--config", o->config, "options from a TOML or JSON file; flags win");
  command->add_option("--model", o->folder, "checkpoint folder; without it a small real model, fetched once");
  command->add_option("--name", o->service.model_name, "the model's name in answers; else the folder's");
  command->add_option("--chat-format", o->service.chat_format,
                      "such as deepseek-v4-preview; else by the model's family");
  command->add_option("--host", o->server.host, "address to listen on")->capture_default_str();
  command->add_option("--port", o->server.port, "port to listen on; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--api-key", o->server.api_keys,
                   "key that requests must carry (several times: any of them)")
      ->allow_extra_args(false);
  command->add_option("--api-key-file", o->api_key_file, "keys, one a line; SEEKLINE_API_KEY is one more");
  command->add_option("--cors-origin", o->server.cors_origins, "origin whose pages may call; * for all")
      ->allow_extra_args(false);
  command->add_flag("--no-probe", o->no_probe, "do not measure memory bandwidth at the start (for /stats)");
  add_limits(*command, *o);
  add_model_options(*command, o->model);
  command->callback([command, o] { serve_model(*command, *o); });
}

}  // namespace seekline
