"""placeholder"""
def choose_emitter(e, group, index, vector):
    return None
