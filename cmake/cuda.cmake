# With JAXINA_BUILD_CUDA=ON, enables the CUDA language with an nvcc of CUDA 12 or newer, and sets JAXINA_HAS_CUDA. It looks
# for nvcc in this order: CMAKE_CUDA_COMPILER, CUDACXX, the PATH, /usr/local/cuda, and PyPI's packages nvidia-cuda-nvcc,
# nvidia-cuda-crt, nvidia-nvvm, nvidia-cuda-runtime and nvidia-cuda-cccl in the Python environment of the build.
option(JAXINA_BUILD_CUDA "Build the GPU code: the shared library of the package jaxina-cuda13; needs nvcc" OFF)
set(JAXINA_CUDA_ARCHITECTURES "" CACHE STRING "GPU targets as in CMAKE_CUDA_ARCHITECTURES; empty for all from sm_80 on")

# Sets `result` to the nvcc of PyPI's packages, or to an empty string if a part of them is missing.
function(jaxina_nvcc_of_python result)
  set(${result} "" PARENT_SCOPE)
  find_package(Python 3.11 COMPONENTS Interpreter QUIET)
  if(NOT Python_EXECUTABLE)
    return()
  endif()
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import nvidia; print(';'.join(nvidia.__path__))"
    OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  foreach(folder IN LISTS folders)
    set(toolkit ${folder}/cu13)
    set(complete TRUE)
    foreach(part bin/nvcc nvvm/bin/cicc include/crt/host_config.h include/cuda_runtime.h lib/libcudart_static.a)
      if(NOT EXISTS ${toolkit}/${part})
        set(complete FALSE)
      endif()
    endforeach()
    if(complete)
      set(${result} ${toolkit}/bin/nvcc PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

set(JAXINA_HAS_CUDA FALSE)
if(NOT JAXINA_BUILD_CUDA)
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  if(DEFINED ENV{CUDACXX})
    set(nvcc $ENV{CUDACXX})
  else()
    find_program(JAXINA_NVCC nvcc PATHS /usr/local/cuda/bin)
    set(nvcc ${JAXINA_NVCC})
  endif()
  if(NOT nvcc)
    jaxina_nvcc_of_python(nvcc)
  endif()
  if(nvcc)
    set(CMAKE_CUDA_COMPILER ${nvcc})
  endif()
endif()

set(version 0)
if(CMAKE_CUDA_COMPILER)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" version "${version}")
  set(version "${CMAKE_MATCH_1}")
endif()
if(NOT version VERSION_GREATER_EQUAL 12.0)
  message(FATAL_ERROR "JAXINA_BUILD_CUDA=ON, but there is no nvcc of CUDA 12 or newer. Install NVIDIA's toolkit, name its "
                      "nvcc with CUDACXX, or: pip install nvidia-cuda-nvcc nvidia-cuda-cccl")
endif()

# Code for sm_80 also runs on GPUs of 8.6 and 8.9. For GPUs newer than those listed, the driver compiles the PTX
# (-virtual) at the first load.
if(JAXINA_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${JAXINA_CUDA_ARCHITECTURES})
elseif(version VERSION_GREATER_EQUAL 12.8)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 100-virtual)
else()
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
endif()

# PyPI's packages keep their libraries in lib, the toolkit in lib64, where nvcc looks.
get_filename_component(toolkit ${CMAKE_CUDA_COMPILER} DIRECTORY)
get_filename_component(toolkit ${toolkit} DIRECTORY)
if(EXISTS ${toolkit}/lib/libcudart_static.a)
  set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -L${toolkit}/lib")
endif()

enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake before 3.26 does not know that nvcc speaks C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(JAXINA_HAS_CUDA TRUE)
message(STATUS "CUDA ${version} for ${CMAKE_CUDA_ARCHITECTURES}")
