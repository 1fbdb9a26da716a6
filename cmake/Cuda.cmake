# CUDA is built where nvcc is found (on PATH or in /usr/local/cuda); -DMT_CUDA=OFF leaves it out, ON insists. cuBLASLt
# and cuDNN are opened at run time: only headers are needed here, and the runtime library is linked statically.
# tools/setup.sh fetches the headers of cuDNN's graphs, pinned and hash-checked.
set(MT_CUDA AUTO CACHE STRING "build the CUDA device: AUTO (where nvcc is), ON, OFF")
set(MT_CUDA_ARCHITECTURES "80-real;86-real;89-real;90-real;100-real;120" CACHE STRING "GPU architectures to build for")

set(MT_HAS_CUDA OFF)
if(NOT MT_CUDA STREQUAL "OFF")
  find_program(MT_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(MT_NVCC)
    set(CMAKE_CUDA_COMPILER ${MT_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${MT_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc has it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    find_package(CUDAToolkit REQUIRED)
    find_path(MT_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    set(MT_CUDNN_FRONTEND ${PROJECT_SOURCE_DIR}/third_party/cudnn_frontend/include)
    if(NOT EXISTS ${MT_CUDNN_FRONTEND}/cudnn_frontend.h)
      message(FATAL_ERROR "${MT_CUDNN_FRONTEND} is missing; run tools/setup.sh, which fetches it, or configure with "
                          "-DMT_CUDA=OFF")
    endif()
    set(MT_HAS_CUDA ON)
  elseif(MT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MT_CUDA is ON and nvcc is neither on PATH nor in /usr/local/cuda/bin")
  endif()
endif()
message(STATUS "CUDA device: ${MT_HAS_CUDA}")
