def plan(request):
    raise NotImplementedError
