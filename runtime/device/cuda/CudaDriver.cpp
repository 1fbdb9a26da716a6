#include "kernels/cuda/Library.h"
#include "runtime/base/Log.h"
#include "runtime/device/cuda/Driver.h"

#include <cstring>

namespace mt::device {
namespace {

/// Success, or the driver's words. Clears the error: it must not surface again at an unrelated call.
Status told(cudaError_t error, const char *call) {
  if (error == cudaSuccess)
    return {};
  (void)cudaGetLastError();
  return fail("{}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

class CudaDriver final : public Driver {
public:
  CudaDriver(int index, std::string title, std::unique_ptr<kernels::cuda::Library> library)
      : index(index), title(std::move(title)), library(std::move(library)) {}

  std::string name() const override { return title; }
  Status bind() override { return told(cudaSetDevice(index), "cudaSetDevice"); }
  Result<DeviceMemory> memory() override {
    size_t free = 0, total = 0;
    MT_TRY(told(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return DeviceMemory{free, total};
  }

  Result<bool> enablePeer(Driver &other) override {
    int can = 0;
    const int peer = static_cast<CudaDriver &>(other).index;
    MT_TRY(told(cudaDeviceCanAccessPeer(&can, index, peer), "cudaDeviceCanAccessPeer"));
    if (!can)
      return false;
    cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError(); // it stays as the last one
      error = cudaSuccess;
    }
    MT_TRY(told(error, "cudaDeviceEnablePeerAccess"));
    return true;
  }

  Result<void *> allocate(uint64_t bytes) override {
    void *memory = nullptr;
    MT_TRY(told(cudaMalloc(&memory, bytes), "cudaMalloc"));
    return memory;
  }
  void release(void *memory) override { (void)cudaFree(memory); }
  Result<void *> allocatePinned(uint64_t bytes) override {
    void *memory = nullptr;
    MT_TRY(told(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc"));
    std::memset(memory, 0, bytes);
    return memory;
  }
  void releasePinned(void *memory) override { (void)cudaFreeHost(memory); }
  Status registerHost(void *memory, uint64_t bytes) override {
    return told(cudaHostRegister(memory, bytes, cudaHostRegisterPortable), "cudaHostRegister");
  }
  void unregisterHost(void *memory) override { (void)cudaHostUnregister(memory); }

  Result<cudaStream_t> createStream() override {
    cudaStream_t stream = nullptr;
    MT_TRY(told(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"));
    return stream;
  }
  void destroy(cudaStream_t stream) override { (void)cudaStreamDestroy(stream); }
  Status synchronize(cudaStream_t stream) override {
    return told(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  Result<cudaEvent_t> createEvent(bool timed) override {
    cudaEvent_t event = nullptr;
    unsigned flags = cudaEventBlockingSync | (timed ? 0U : cudaEventDisableTiming);
    MT_TRY(told(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags"));
    return event;
  }
  void destroy(cudaEvent_t event) override { (void)cudaEventDestroy(event); }
  Status record(cudaEvent_t event, cudaStream_t stream) override {
    return told(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  Status wait(cudaStream_t stream, cudaEvent_t event) override {
    return told(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  Status synchronize(cudaEvent_t event) override { return told(cudaEventSynchronize(event), "cudaEventSynchronize"); }
  Result<bool> isDone(cudaEvent_t event) override {
    cudaError_t error = cudaEventQuery(event);
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    MT_TRY(told(error, "cudaEventQuery"));
    return true;
  }
  Result<double> seconds(cudaEvent_t from, cudaEvent_t to) override {
    float milliseconds = 0;
    MT_TRY(told(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime"));
    return milliseconds * 1e-3;
  }

  Status copy(void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind, cudaStream_t stream) override {
    return told(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
  }
  Status fill(void *memory, int byte, uint64_t bytes, cudaStream_t stream) override {
    return told(cudaMemsetAsync(memory, byte, bytes, stream), "cudaMemsetAsync");
  }

  bool supports(std::string_view kernel) const override { return kernels::cuda::supports(kernel); }
  void openLibraries() override {
    (void)library->blas();
    (void)library->dnn();
  }
  Result<kernels::cuda::Run> prepare(const kernels::Signature &call) override {
    return kernels::cuda::prepare(call, *library);
  }

  Result<const kernels::cuda::Nccl *> nccl() override {
    using namespace kernels::cuda;
    static const Result<Nccl> opened = Nccl::open(LibraryFolders::in(Surroundings::ofProcess()));
    if (!opened.ok())
      return opened.status();
    return &*opened;
  }

  /// The driver loads a kernel when its launch is captured. Relaxed: loading is allowed to this thread meanwhile.
  Status preload(cudaStream_t stream, const std::function<Status()> &launches) override {
    Status status = told(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    if (status.ok()) {
      status = launches();
      bool missing = cudaGetLastError() == cudaErrorNoKernelImageForDevice;
      cudaGraph_t graph = nullptr;
      Status ended = told(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
      if (graph)
        (void)cudaGraphDestroy(graph);
      if (missing)
        return status;
      if (status.ok())
        status = ended;
    }
    if (!status.ok())
      log().debug("{}: a kernel is not loaded ahead: {}", title, status.message());
    return {};
  }

  Status beginCapture(cudaStream_t stream) override {
    return told(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  Result<cudaGraphExec_t> endCapture(cudaStream_t stream) override {
    cudaGraph_t graph = nullptr;
    MT_TRY(told(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"));
    cudaGraphExec_t made = nullptr;
    Status status = told(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
    (void)cudaGraphDestroy(graph);
    MT_TRY(status);
    return made;
  }
  Status launch(cudaGraphExec_t graph, cudaStream_t stream) override {
    return told(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  }
  void destroy(cudaGraphExec_t graph) override { (void)cudaGraphExecDestroy(graph); }

private:
  const int index;
  const std::string title;
  std::unique_ptr<kernels::cuda::Library> library;
};

constexpr int kLeastCapability = 8; ///< major: what kernels are compiled for, see cmake/Cuda.cmake

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

/// Number of GPUs, or why there is none to use.
Result<int> countDevices() {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return fail("there is no NVIDIA driver (libcuda.so.1) on this machine; install it, or use --device cpu");
  if (driver < CUDART_VERSION / 1000 * 1000)
    return fail("the NVIDIA driver is too old: it knows CUDA {}, and this mtrun needs {}.0; install a newer driver, or "
                "use --device cpu",
                version(driver), CUDART_VERSION / 1000);
  Status status = told(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (!status.ok() || count == 0)
    return fail("there is no GPU that CUDA can use: {}; see what nvidia-smi says, or use --device cpu",
                status.ok() ? "the driver counts none" : status.message());
  return count;
}

} // namespace

std::string cudaVersion() { return version(CUDART_VERSION); }

Result<std::unique_ptr<Driver>> openDriver(int index) {
  MT_ASSIGN(int count, countDevices());
  if (index < 0 || index >= count)
    return fail("there is no GPU {}: this machine has {}, numbered from 0; name one with --device cuda:N", index,
                count);
  // Threads that wait for the GPU sleep: those that spin would slow down the updates beside them.
  MT_TRY(told(cudaInitDevice(index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid), "cudaInitDevice"));
  MT_TRY(told(cudaSetDevice(index), "cudaSetDevice"));
  cudaDeviceProp properties{};
  MT_TRY(told(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
  std::string title = fmt::format("GPU {}, {}", index, properties.name);
  if (properties.major < kLeastCapability)
    return fail(
        "{}: it has compute capability {}.{}, and this mtrun needs {}.0 or newer; use another GPU, or --device cpu",
        title, properties.major, properties.minor, kLeastCapability);
  auto library = kernels::cuda::Library::open();
  if (!library.ok())
    return library.status().within(title);
  return std::unique_ptr<Driver>(std::make_unique<CudaDriver>(index, std::move(title), std::move(*library)));
}

} // namespace mt::device
